// A ring over pods that have names, with spymemcached: java -cp spymemcached.jar SpymemcachedNamed.java /etc/cache/servers
// The file is the key `servers` of the mounted ConfigMap: one name:port a line.
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Security;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.DefaultHashAlgorithm;
import net.spy.memcached.FailureMode;
import net.spy.memcached.KetamaConnectionFactory;
import net.spy.memcached.KetamaNodeKeyFormatter;
import net.spy.memcached.MemcachedClient;

public class SpymemcachedNamed {
    volatile MemcachedClient ring;
    List<InetSocketAddress> pods = List.of();

    // By default spymemcached makes the ring from names and addresses; with this format from names only. A pod that is away keeps
    // its place: its keys are misses at once.
    static class OfNames extends KetamaConnectionFactory {
        OfNames() {
            super(
                DefaultConnectionFactory.DEFAULT_OP_QUEUE_LEN,
                DefaultConnectionFactory.DEFAULT_READ_BUFFER_SIZE,
                DefaultConnectionFactory.DEFAULT_OP_QUEUE_MAX_BLOCK_TIME,
                DefaultHashAlgorithm.KETAMA_HASH,
                KetamaNodeKeyFormatter.Format.LIBMEMCACHED,
                Map.of());
        }

        @Override
        public FailureMode getFailureMode() {
            return FailureMode.Cancel;
        }

        @Override
        public long getOperationTimeout() {
            return 1000;
        }

        // Else a program that fails goes on for ever.
        @Override
        public boolean isDaemon() {
            return true;
        }
    }

    // spymemcached takes no name without an address. So the name of a pod that is away gets this one, where nobody listens.
    static final byte[] NOBODY = {127, (byte) 255, (byte) 255, (byte) 254};

    static List<InetSocketAddress> lookUp(List<String> servers) throws UnknownHostException {
        List<InetSocketAddress> found = new ArrayList<>();
        for (String server : servers) {
            int colon = server.lastIndexOf(':');
            String name = server.substring(0, colon);
            int port = Integer.parseInt(server.substring(colon + 1));
            InetSocketAddress pod = new InetSocketAddress(name, port);
            found.add(pod.isUnresolved() ? new InetSocketAddress(InetAddress.getByAddress(name, NOBODY), port) : pod);
        }
        return found;
    }

    static boolean isThere(InetSocketAddress pod) {
        return !Arrays.equals(pod.getAddress().getAddress(), NOBODY);
    }

    // A client that knows these addresses stays while a pod is away. It has to be made anew when a pod has another address, also
    // while another one is away: in a rollout there may be no moment at which all are there.
    static boolean haveMoved(List<InetSocketAddress> known, List<InetSocketAddress> found) {
        IntPredicate hasMoved = place -> isThere(found.get(place)) && !found.get(place).equals(known.get(place));
        return known.size() != found.size() || IntStream.range(0, found.size()).anyMatch(hasMoved);
    }

    // To be called every ten seconds, because spymemcached keeps the address that a name had, and a new pod has another one.
    void look(List<String> servers) throws Exception {
        List<InetSocketAddress> found = lookUp(servers);
        if (ring != null && !haveMoved(pods, found)) {
            return;
        }
        MemcachedClient next = new MemcachedClient(new OfNames(), found);
        // It connects in the background, and until then each request is a miss.
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(1);
        long there = found.stream().filter(SpymemcachedNamed::isThere).count();
        while (next.getAvailableServers().size() < there && System.nanoTime() < end) {
            Thread.sleep(5);
        }
        MemcachedClient before = ring;
        ring = next;
        pods = found;
        if (before != null) {
            before.shutdown();
        }
    }

    public static void main(String[] arguments) throws Exception {
        // Java itself would keep an address for half a minute, and that there is none for ten seconds.
        Security.setProperty("networkaddress.cache.ttl", "0");
        Security.setProperty("networkaddress.cache.negative.ttl", "0");
        SpymemcachedNamed cache = new SpymemcachedNamed();
        cache.look(Files.readAllLines(Path.of(arguments[0])));
        cache.ring.set("greeting", 0, "hello").get();
        System.out.println(cache.ring.get("greeting"));
        cache.ring.shutdown();
    }
}
