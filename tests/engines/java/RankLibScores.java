import ciir.umass.edu.learning.DataPoint;
import ciir.umass.edu.learning.DenseDataPoint;
import ciir.umass.edu.learning.Ranker;
import ciir.umass.edu.learning.RankerFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Reads a model by the RankLib that the LTR plugins carry: names, then rows of numbers come in, scores go out. */
public class RankLibScores {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);  // RankLib says there what it has read
        Ranker ranker = new RankerFactory().loadRankerFromString(Files.readString(Path.of(arguments[0])));
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in));
        rows.readLine();
        StringBuilder scores = new StringBuilder();
        for (String line = rows.readLine(); line != null; line = rows.readLine()) {
            String[] values = line.split("\t");
            StringBuilder numbered = new StringBuilder("0 qid:1");
            for (int j = 0; j < values.length; j++) {
                numbered.append(' ').append(j + 1).append(':').append(values[j]);
            }
            DataPoint row = new DenseDataPoint(numbered.toString());
            scores.append(ranker.eval(row)).append('\n');
        }
        out.print(scores);
    }
}
