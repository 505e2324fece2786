import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
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
 * <p>Arguments: the file of events (time, type and value of each: 8, 4 and 4 bytes, little endian), followedBy
 * or followedByAny, the window in ms (exclusive), the parallelism, whether to filter events before CEP, and
 * the steps of the sequence, each as NAME:TYPE:LEAST:MOST and possibly :below or :above the first step.
 */
public final class Cep {
    private static Event[] events; // the jobs run in this process, so that their source can read it

    /** One event; Flink asks for a public class with public fields. */
    public static final class Event {
        public long time;
        public int type;
        public int value;
    }

    /** One variable of the sequence: what an event must be to be bound to it. */
    private record Step(String name, int type, int least, int most, String relation) implements Serializable {
        static Step of(String text) {
            String[] part = text.split(":");
            return new Step(part[0], Integer.parseInt(part[1]), Integer.parseInt(part[2]),
                    Integer.parseInt(part[3]), part.length > 4 ? part[4] : "");
        }

        boolean admits(Event event) {
            return event.type == type && least <= event.value && event.value <= most;
        }
    }

    /** A step's own predicates, then its predicate against the first step. */
    private static final class Condition extends IterativeCondition<Event> {
        private final Step step;
        private final String first;

        Condition(Step step, String first) {
            this.step = step;
            this.first = first;
        }

        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            if (!step.admits(event)) {
                return false;
            }
            if (step.relation().isEmpty()) {
                return true;
            }
            int bound = context.getEventsForPattern(first).iterator().next().value;
            return step.relation().equals("below") ? event.value < bound : event.value > bound;
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
        static long matches;

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
            matches++;
        }
    }

    public static void main(String[] args) throws Exception {
        events = read(Path.of(args[0]));
        Step[] steps = Arrays.stream(args).skip(5).map(Step::of).toArray(Step[]::new);
        Pattern<Event, ?> pattern = pattern(steps, args[1].equals("followedByAny"), Long.parseLong(args[2]));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        while (asked.readLine() != null) {
            Count.matches = 0;
            double seconds = run(pattern, steps, Integer.parseInt(args[3]), Boolean.parseBoolean(args[4]));
            System.out.printf("{\"seconds\": %s, \"matches\": %d}%n", seconds, Count.matches);
        }
    }

    private static Event[] read(Path file) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
        Event[] read = new Event[bytes.remaining() / 16];
        for (int i = 0; i < read.length; i++) {
            read[i] = new Event();
            read[i].time = bytes.getLong();
            read[i].type = bytes.getInt();
            read[i].value = bytes.getInt();
        }
        return read;
    }

    private static Pattern<Event, ?> pattern(Step[] steps, boolean any, long within) {
        String first = steps[0].name();
        Pattern<Event, ?> pattern = Pattern.<Event>begin(first).where(new Condition(steps[0], first));
        for (Step step : Arrays.asList(steps).subList(1, steps.length)) {
            Pattern<Event, Event> next =
                    any ? pattern.followedByAny(step.name()) : pattern.followedBy(step.name());
            pattern = next.where(new Condition(step, first));
        }
        return pattern.within(Duration.ofMillis(within));
    }

    /** Run one job and return the seconds from its start to its end, without those of the cluster. */
    private static double run(Pattern<Event, ?> pattern, Step[] steps, int parallelism, boolean filtered)
            throws Exception {
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment();
        flink.setParallelism(parallelism);
        flink.getConfig().enableObjectReuse();
        DataStream<Event> stream = flink.fromSequence(0, events.length - 1).setParallelism(1)
                .map(i -> events[i.intValue()]).returns(Event.class).setParallelism(1);
        if (filtered) {
            stream = stream.filter(event -> Arrays.stream(steps).anyMatch(step -> step.admits(event)))
                    .setParallelism(1);
        }
        stream = stream.assignTimestampsAndWatermarks(
                WatermarkStrategy.<Event>forGenerator(context -> new Punctuated())
                        .withTimestampAssigner((event, before) -> event.time))
                .setParallelism(1);
        CEP.pattern(stream, pattern).process(new Count()).sinkTo(new DiscardingSink<>());
        return flink.execute().getNetRuntime() / 1000.0;
    }
}
