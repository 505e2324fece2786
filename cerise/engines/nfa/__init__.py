"""NFA^b: automata over a shared buffer of events, as compiled kernels [SASE08]."""

from cerise.engines.nfa.engine import ENGINES as ENGINES
from cerise.engines.nfa.engine import gains_by_merging as gains_by_merging
