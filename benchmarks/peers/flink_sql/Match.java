import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Flink SQL over a stream that is read from a file: one job for each line on standard input, one line of JSON
 * for each job.
 *
 * <p>Arguments: the parallelism, the statement that makes the table of events, and the query, which gives one
 * row for each match.
 */
public final class Match {
    public static void main(String[] args) throws Exception {
        TableEnvironment flink =
                TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().build());
        flink.getConfig().set("parallelism.default", args[0]);
        flink.getConfig().set("pipeline.object-reuse", "true");
        flink.executeSql(args[1]);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        while (asked.readLine() != null) {
            TableResult job = flink.executeSql(args[2]);
            long matches = 0;
            try (CloseableIterator<Row> rows = job.collect()) {
                for (; rows.hasNext(); rows.next()) {
                    matches++;
                }
            }
            // From the start of the job to its end, without those of the cluster.
            double seconds = job.getJobClient().get().getJobExecutionResult().get().getNetRuntime() / 1000.0;
            System.out.printf("{\"seconds\": %s, \"matches\": %d}%n", seconds, matches);
        }
    }
}
