import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Matcher;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Flink CEP over events in memory: one job for each line on standard input, one line of JSON for each job.
 *
 * <p>Arguments: the file of events (time, price, type, key, value and size of each: twice 8 bytes, the second
 * a double, and four times 4, little endian), followedBy, followedByAny or next, the window in ms (exclusive;
 * 0 for none), the parallelism, whether to filter events before CEP, whether to partition them by key, and the
 * steps of the sequence, each as a name, with + if it may be several events, and its tests: "b+ type=7
 * value&gt;a.first value&gt;b.last". Several events are any of those that follow, in all combinations; with
 * next they follow each other at once, as many as there are, and the search goes on at the last event of a
 * match. A test compares an attribute with a number, or with the same attribute of the first, of the last or
 * of every event that a step has so far, perhaps times a number; where there is none, it holds.
 */
public final class Cep {
    private static Event[] events; // the jobs run in this process, so that their source can read it

    /** One event; Flink asks for a public class with public fields. */
    public static final class Event {
        public long time;
        public double price;
        public int type;
        public int key;
        public int value;
        public int size;

        double get(char attribute) {
            return switch (attribute) {
                case 't' -> type;
                case 'v' -> value;
                case 'p' -> price;
                default -> size;
            };
        }
    }

    /** A comparison with a number, or with so many times what a step has; by first letters, to be quick. */
    private record Test(char attribute, boolean less, boolean equal, boolean greater, double number,
            String other, char which) implements Serializable {
        private static final java.util.regex.Pattern FORM = java.util.regex.Pattern.compile(
                "(type|value|size|price)(<=|>=|<|>|=)"
                        + "(?:(-?[\\d.]+)|(?:([\\d.]+)\\*)?(\\w+)\\.(first|last|every))");

        static Test of(String text) {
            Matcher part = FORM.matcher(text);
            if (!part.matches()) {
                throw new IllegalArgumentException("not a test: " + text);
            }
            String relation = part.group(2);
            String times = part.group(4) != null ? part.group(4) : "1";
            String number = part.group(3) != null ? part.group(3) : times;
            return new Test(part.group(1).charAt(0), relation.contains("<"), relation.contains("="),
                    relation.contains(">"), Double.parseDouble(number), part.group(5),
                    part.group(6) != null ? part.group(6).charAt(0) : ' ');
        }

        boolean holds(Event event, double bound) {
            double own = event.get(attribute);
            return own < bound ? less : own > bound ? greater : equal;
        }

        boolean holds(Event event, IterativeCondition.Context<Event> context) throws Exception {
            boolean holds = true;
            for (Event bound : context.getEventsForPattern(other)) {
                holds = holds(event, number * bound.get(attribute));
                if (which == 'f' || which == 'e' && !holds) {
                    break;
                }
            }
            return holds;
        }
    }

    /** One variable of the sequence: what an event must be to be bound to it. */
    private record Step(String name, boolean several, List<Test> own, List<Test> against)
            implements Serializable {
        static Step of(String text) {
            String[] part = text.split(" ");
            List<Test> tests = Arrays.stream(part).skip(1).map(Test::of).toList();
            return new Step(part[0].replace("+", ""), part[0].endsWith("+"),
                    new ArrayList<>(tests.stream().filter(test -> test.other() == null).toList()),
                    new ArrayList<>(tests.stream().filter(test -> test.other() != null).toList()));
        }

        boolean admits(Event event) {
            for (Test test : own) {
                if (!test.holds(event, test.number())) {
                    return false;
                }
            }
            return true;
        }
    }

    /** A step's own predicates, then those against other events of the match. */
    private static final class Condition extends IterativeCondition<Event> {
        private final Step step;

        Condition(Step step) {
            this.step = step;
        }

        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            if (!step.admits(event)) {
                return false;
            }
            for (Test test : step.against()) {
                if (!test.holds(event, context)) {
                    return false;
                }
            }
            return true;
        }
    }

    /**
     * A watermark with every few events. By the clock, as is usual, a source this fast puts very many events
     * between two of them, and CEP was eight times slower (a million events, window of 100).
     */
    private static final class Punctuated implements WatermarkGenerator<Event> {
        private static final int EVENTS = 100;
        private int since;

        @Override
        public void onEvent(Event event, long time, WatermarkOutput output) {
            if (++since == EVENTS) {
                output.emitWatermark(new Watermark(time - 1)); // events of equal time may follow
                since = 0;
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    /** Counts the matches; Flink has put each together by then. */
    private static final class Count extends PatternProcessFunction<Event, Long> {
        static final LongAdder matches = new LongAdder(); // tasks run side by side

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
            matches.increment();
        }
    }

    public static void main(String[] args) throws Exception {
        events = read(Path.of(args[0]));
        Step[] steps = Arrays.stream(args).skip(6).map(Step::of).toArray(Step[]::new);
        Pattern<Event, ?> pattern = pattern(steps, args[1], Long.parseLong(args[2]));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        while (asked.readLine() != null) {
            Count.matches.reset();
            DataStream<Event> all = source(steps, Integer.parseInt(args[3]), Boolean.parseBoolean(args[4]));
            double seconds = run(pattern, Boolean.parseBoolean(args[5]) ? all.keyBy(each -> each.key) : all);
            System.out.printf("{\"seconds\": %s, \"matches\": %d}%n", seconds, Count.matches.sum());
        }
    }

    private static Event[] read(Path file) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
        Event[] read = new Event[bytes.remaining() / 32];
        for (int i = 0; i < read.length; i++) {
            read[i] = new Event();
            read[i].time = bytes.getLong();
            read[i].price = bytes.getDouble();
            read[i].type = bytes.getInt();
            read[i].key = bytes.getInt();
            read[i].value = bytes.getInt();
            read[i].size = bytes.getInt();
        }
        return read;
    }

    private static Pattern<Event, ?> pattern(Step[] steps, String contiguity, long within) {
        boolean next = contiguity.equals("next");
        Pattern<Event, Event> pattern = null;
        for (Step step : steps) {
            Pattern<Event, Event> follows = pattern == null ? begin(step, steps, next)
                    : next ? pattern.next(step.name())
                    : contiguity.equals("followedByAny") ? pattern.followedByAny(step.name())
                    : pattern.followedBy(step.name());
            pattern = follows.where(new Condition(step));
            if (step.several()) {
                pattern = next ? pattern.oneOrMore().greedy().consecutive()
                        : pattern.oneOrMore().allowCombinations();
            }
        }
        return within == 0 ? pattern : pattern.within(Duration.ofMillis(within));
    }

    /** Begin a pattern; where events follow each other at once, the last of a match may begin another. */
    private static Pattern<Event, Event> begin(Step first, Step[] steps, boolean next) {
        return next ? Pattern.begin(first.name(),
                        AfterMatchSkipStrategy.skipToLast(steps[steps.length - 1].name()))
                : Pattern.begin(first.name());
    }

    /** Make the stream of all events, or of those that some step admits. */
    private static DataStream<Event> source(Step[] steps, int parallelism, boolean filtered) {
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment();
        flink.setParallelism(parallelism);
        flink.getConfig().enableObjectReuse();
        DataStream<Event> stream = flink.fromSequence(0, events.length - 1).setParallelism(1)
                .map(i -> events[i.intValue()]).returns(Event.class).setParallelism(1);
        if (filtered) {
            stream = stream.filter(event -> Arrays.stream(steps).anyMatch(step -> step.admits(event)))
                    .setParallelism(1);
        }
        return stream.assignTimestampsAndWatermarks(
                WatermarkStrategy.<Event>forGenerator(context -> new Punctuated())
                        .withTimestampAssigner((event, before) -> event.time))
                .setParallelism(1);
    }

    /** Run one job and return the seconds from its start to its end, without those of the cluster. */
    private static double run(Pattern<Event, ?> pattern, DataStream<Event> stream) throws Exception {
        CEP.pattern(stream, pattern).process(new Count()).sinkTo(new DiscardingSink<>());
        return stream.getExecutionEnvironment().execute().getNetRuntime() / 1000.0;
    }
}
