import com.yahoo.searchlib.rankingexpression.RankingExpression;
import com.yahoo.searchlib.rankingexpression.evaluation.MapContext;
import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;

/** Evaluates a ranking expression: names of features, then rows of numbers come in, scores go out. */
public class VespaScores {
    public static void main(String[] arguments) throws Exception {
        RankingExpression expression = new RankingExpression(new FileReader(arguments[0]));
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in));
        String[] names = rows.readLine().split("\t");
        StringBuilder scores = new StringBuilder();
        for (String line = rows.readLine(); line != null; line = rows.readLine()) {
            String[] values = line.split("\t");
            MapContext context = new MapContext();
            for (int j = 0; j < names.length; j++) context.put(names[j], Double.parseDouble(values[j]));
            scores.append(expression.evaluate(context).asDouble()).append('\n');
        }
        System.out.print(scores);
    }
}
