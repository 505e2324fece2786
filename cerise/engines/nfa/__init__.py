"""NFA^b: automata over a shared buffer of events, as compiled kernels [SASE08]."""

from cerise.engines.nfa.engine import ENGINES as ENGINES
from cerise.engines.nfa.engine import why_merge as why_merge
