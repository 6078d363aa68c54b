import com.yahoo.schema.parser.ParsedSchema;
import com.yahoo.schema.parser.SchemaParser;
import com.yahoo.schema.parser.SimpleCharStream;
import com.yahoo.searchlib.rankingexpression.RankingExpression;
import com.yahoo.searchlib.rankingexpression.evaluation.MapContext;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Reads a rank profile by Vespa's own parser of schemas and scores rows by it: names of features, then rows of a query's
 * number and values come in, scores go out. Functions are normalized within queries by the classes of the global phase.
 * With a second argument, what that function of the profile gives for each row goes out instead.
 */
public class VespaScores {
    public static void main(String[] arguments) throws Exception {
        String text = "schema rows {\n document rows {}\n" + Files.readString(Path.of(arguments[0])) + "}\n";
        ParsedSchema schema = new SchemaParser(new SimpleCharStream(text), (level, message) -> {}).rootSchema();
        Object profile = ((List<?>) of(schema, "getRankProfiles")).get(0);
        Map<String, RankingExpression> functions = new LinkedHashMap<>();
        for (Object function : (List<?>) of(profile, "getFunctions")) {
            functions.put((String) of(function, "name"), new RankingExpression((String) of(function, "getExpression")));
        }
        List<MapContext> rows = new ArrayList<>();
        Map<String, List<MapContext>> queries = new LinkedHashMap<>();
        read(rows, queries);
        StringBuilder scores = new StringBuilder();
        if (arguments.length > 1) {
            RankingExpression function = functions.get(arguments[1]);
            for (MapContext row : rows) {
                function.evaluate(row).asTensor().valueIterator().forEachRemaining(v -> scores.append(v).append('\n'));
            }
        } else {
            Optional<?> later = (Optional<?>) of(profile, "getSecondPhaseExpression");
            Optional<?> last = (Optional<?>) of(profile, "getGlobalPhaseExpression");
            for (MapContext row : rows) compute(functions, row);
            if (last.isPresent()) {
                for (List<MapContext> query : queries.values()) normalize(functions, query);
            }
            RankingExpression expression = new RankingExpression((String) (last.isPresent() ? last : later).get());
            for (MapContext row : rows) scores.append(expression.evaluate(row).asDouble()).append('\n');
        }
        System.out.print(scores);
    }

    static void read(List<MapContext> rows, Map<String, List<MapContext>> queries) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String[] names = in.readLine().split("\t");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] values = line.split("\t");
            MapContext context = new MapContext();
            for (int j = 1; j < names.length; j++) context.put(names[j], Double.parseDouble(values[j]));
            rows.add(context);
            queries.computeIfAbsent(values[0], query -> new ArrayList<>()).add(context);
        }
    }

    /** Functions may name those before them. */
    static void compute(Map<String, RankingExpression> functions, MapContext row) {
        for (Map.Entry<String, RankingExpression> function : functions.entrySet()) {
            row.put(function.getKey(), function.getValue().evaluate(row).asDouble());
        }
    }

    static void normalize(Map<String, RankingExpression> functions, List<MapContext> query) throws Exception {
        Constructor<?> make = Class.forName("com.yahoo.search.ranking.LinearNormalizer").getDeclaredConstructor(int.class);
        make.setAccessible(true);
        for (Map.Entry<String, RankingExpression> function : functions.entrySet()) {
            Object normalizer = make.newInstance(query.size());
            for (MapContext row : query) {
                call(normalizer, "addInput", double.class, function.getValue().evaluate(row).asDouble());
            }
            of(normalizer, "normalize");
            for (int k = 0; k < query.size(); k++) {
                double value = (double) call(normalizer, "getOutput", int.class, k);
                query.get(k).put("normalize_linear(" + function.getKey() + ")", value);
            }
        }
    }

    static Object of(Object object, String method) throws Exception {
        return call(object, method, null, null);
    }

    static Object call(Object object, String name, Class<?> type, Object argument) throws Exception {
        for (Class<?> c = object.getClass(); c != null; c = c.getSuperclass()) {
            for (Method method : c.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == (type == null ? 0 : 1)) {
                    method.setAccessible(true);
                    return type == null ? method.invoke(object) : method.invoke(object, argument);
                }
            }
        }
        throw new NoSuchMethodException(name);
    }
}
