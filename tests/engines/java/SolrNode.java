import org.apache.solr.client.solrj.embedded.JettySolrRunner;

/** A Solr server on a free loopback port, which it prints; it stops when its input ends. */
public class SolrNode {
    public static void main(String[] arguments) throws Exception {
        JettySolrRunner node = new JettySolrRunner(arguments[0], "/solr", 0);
        node.start();
        System.out.println("PORT " + node.getLocalPort());
        while (System.in.read() >= 0) { }
        node.stop();
        System.exit(0);
    }
}
