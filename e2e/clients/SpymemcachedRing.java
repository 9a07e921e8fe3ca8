// A ring over the pods of a cache, with spymemcached: java -cp spymemcached.jar SpymemcachedRing.java cache.default 11211
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.DefaultHashAlgorithm;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;

public class SpymemcachedRing {
    public static void main(String[] arguments) throws Exception {
        List<InetSocketAddress> pods = new ArrayList<>();
        for (InetAddress address : InetAddress.getAllByName(arguments[0])) {
            pods.add(new InetSocketAddress(address, Integer.parseInt(arguments[1])));
        }
        // Without the locator a pod more or less moves nearly all keys; without the hash nearly all keys are in one pod. A client
        // keeps its servers: make a new one when the addresses behind the name change.
        MemcachedClient ring = new MemcachedClient(
            new ConnectionFactoryBuilder()
                .setLocatorType(ConnectionFactoryBuilder.Locator.CONSISTENT)
                .setHashAlg(DefaultHashAlgorithm.KETAMA_HASH)
                .setFailureMode(FailureMode.Cancel)
                .setOpTimeout(1000)
                // Else a program that fails goes on for ever.
                .setDaemon(true)
                .build(),
            pods);
        // It connects in the background, and until then it cancels each request.
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (ring.getAvailableServers().size() < pods.size() && System.nanoTime() < end) {
            Thread.sleep(5);
        }
        ring.set("greeting", 0, "hello").get();
        System.out.println(ring.get("greeting"));
        ring.shutdown();
    }
}
