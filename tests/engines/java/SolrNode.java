import org.apache.solr.client.solrj.embedded.JettySolrRunner;

/** A Solr server on the port given, else on a free one, which it prints; it stops when its input ends. */
public class SolrNode {
    public static void main(String[] arguments) throws Exception {
        JettySolrRunner node = new JettySolrRunner(
            arguments[0], "/solr", arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0);
        node.start();
        System.out.println("PORT " + node.getLocalPort());
        while (System.in.read() >= 0) { }
        node.stop();
        System.exit(0);
    }
}
