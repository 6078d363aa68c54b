import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jpmml.evaluator.Evaluator;
import org.jpmml.evaluator.EvaluatorUtil;
import org.jpmml.evaluator.LoadingModelEvaluatorBuilder;

/** Evaluates a PMML document: names of features, then rows of numbers come in, scores go out. */
public class PmmlScores {
    public static void main(String[] arguments) throws Exception {
        Evaluator evaluator = new LoadingModelEvaluatorBuilder().load(new File(arguments[0])).build();
        evaluator.verify();
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in));
        String[] names = rows.readLine().split("\t");
        StringBuilder scores = new StringBuilder();
        for (String line = rows.readLine(); line != null; line = rows.readLine()) {
            String[] values = line.split("\t");
            Map<String, Object> given = new LinkedHashMap<>();
            for (int j = 0; j < names.length; j++) {
                given.put(names[j], values[j].equals("NaN") ? null : (Object) Double.valueOf(values[j]));
            }
            Map<String, ?> results = EvaluatorUtil.decodeAll(evaluator.evaluate(given));
            scores.append(results.get("score")).append('\n');
        }
        System.out.print(scores);
    }
}
