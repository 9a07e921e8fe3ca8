// How many keys are found again when the servers of a ring change, with spymemcached:
// java -cp spymemcached.jar HitRatios.java CONSISTENT|ARRAY_MOD FROM TO [FROM TO]...
// FROM and TO are address:port,... of memcacheds. Prints a share for each pair: of 5,000 keys that are stored in the ring FROM,
// those that the ring TO finds.
import java.util.ArrayList;
import java.util.List;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.DefaultHashAlgorithm;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.internal.OperationFuture;

public class HitRatios {
    static final int KEYS = 5000;

    static MemcachedClient ring(String locator, String servers) throws Exception {
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder().setOpTimeout(20000);
        builder.setLocatorType(ConnectionFactoryBuilder.Locator.valueOf(locator));
        // By default the keys of a server whose connection is not up yet go to another server.
        builder.setFailureMode(FailureMode.Retry);
        if (locator.equals("CONSISTENT")) {
            builder.setHashAlg(DefaultHashAlgorithm.KETAMA_HASH);
        }
        return new MemcachedClient(builder.build(), AddrUtil.getAddresses(servers.replace(',', ' ')));
    }

    public static void main(String[] arguments) throws Exception {
        for (int pair = 1; pair < arguments.length; pair += 2) {
            List<String> keys = new ArrayList<>();
            MemcachedClient before = ring(arguments[0], arguments[pair]);
            OperationFuture<Boolean> last = null;
            for (int key = 0; key < KEYS; key++) {
                keys.add(ProcessHandle.current().pid() + "-" + pair + "-" + key);
                last = before.set(keys.get(key), 0, "value");
                if (key % 500 == 499) {
                    last.get();
                }
            }
            before.waitForQueues(20, java.util.concurrent.TimeUnit.SECONDS);
            before.shutdown();
            MemcachedClient after = ring(arguments[0], arguments[pair + 1]);
            System.out.println(100 * after.getBulk(keys).size() / KEYS);
            after.shutdown();
        }
    }
}
