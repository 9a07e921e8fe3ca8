// How many keys are found again when the servers of a ring change, with spymemcached:
// javac -cp spymemcached.jar -d FOLDER HitRatios.java SpymemcachedNamed.java
// java -cp spymemcached.jar:FOLDER HitRatios CONSISTENT|ARRAY_MOD|NAMED|KEPT FROM TO [FROM TO]...
// NAMED is the ring of SpymemcachedNamed.java. KEPT is the same, but makes no new client when a name gets another address. FROM and
// TO are host:port,... of memcacheds. Prints a share for each pair: of 5,000 keys that are stored in the ring FROM, those that the
// ring TO finds. An error is a miss; a server that is there is asked again for what it did not answer. Without FROM and TO it reads
// orders, as hit_ratios.py does.
import java.net.InetSocketAddress;
import java.security.Security;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import net.spy.memcached.ConnectionFactory;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.DefaultHashAlgorithm;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;

public class HitRatios {
    static final int KEYS = 5000;
    final String kind;
    final boolean takesOrders;
    // Seconds. Where all servers are there, a machine that is busy, or stands still for a while, makes no miss.
    final long patience;
    // Seconds. Where a server goes away, spymemcached leaves some requests without an answer.
    static final long PATIENCE_WHILE_AWAY = 5;
    // Milliseconds. An application that works goes on while a server is away; what is late is asked again.
    static final long PATIENCE_AT_WORK = 100;
    // As many are asked for at once.
    static final int BATCH = 500;
    // Seconds in which servers that are there are asked again for what they have not answered, for all keys together.
    static final long ASKS_AGAIN = 30;
    Exception firstMiss;
    String servers = "";
    List<InetSocketAddress> addresses = List.of();
    MemcachedClient client;
    String keys;
    int next;
    // Numbers of keys: which the last share lacks, and which reads have missed.
    final BitSet lacking = new BitSet();
    final BitSet misses = new BitSet();

    HitRatios(String kind, boolean takesOrders) {
        this.kind = kind;
        this.takesOrders = takesOrders;
        // KEPT never comes back to a server that has another address.
        this.patience = kind.equals("KEPT") ? PATIENCE_WHILE_AWAY : takesOrders ? 20 : 60;
    }

    ConnectionFactory factory() {
        if (kind.equals("NAMED") || kind.equals("KEPT")) {
            return new SpymemcachedNamed.OfNames() {
                @Override
                public long getMaxReconnectDelay() {
                    return 1;
                }

                @Override
                public int getTimeoutExceptionThreshold() {
                    return Integer.MAX_VALUE;
                }

                @Override
                public long getOperationTimeout() {
                    return kind.equals("KEPT") ? super.getOperationTimeout() : TimeUnit.SECONDS.toMillis(patience);
                }
            };
        }
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder();
        builder.setLocatorType(ConnectionFactoryBuilder.Locator.valueOf(kind));
        // By default the keys of a server whose connection is not up go to another server.
        builder.setFailureMode(FailureMode.Cancel);
        builder.setDaemon(true);
        builder.setOpTimeout(TimeUnit.SECONDS.toMillis(patience));
        // By default a server that was late for about a thousand requests in a row counts as away.
        builder.setTimeoutExceptionThreshold(Integer.MAX_VALUE);
        if (kind.equals("CONSISTENT")) {
            builder.setHashAlg(DefaultHashAlgorithm.KETAMA_HASH);
        }
        return builder.build();
    }

    void use(String wanted, boolean anew) throws Exception {
        boolean same = !anew && wanted.equals(servers);
        if (same && kind.equals("KEPT")) {
            return;
        }
        List<InetSocketAddress> found = SpymemcachedNamed.lookUp(List.of(wanted.split(",")));
        if (same && !SpymemcachedNamed.haveMoved(addresses, found)) {
            return;
        }
        if (client != null) {
            client.shutdown();
        }
        servers = wanted;
        addresses = found;
        client = new MemcachedClient(factory(), found);
        // It connects in the background, and a request before that is a miss.
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(patience);
        long there = found.stream().filter(SpymemcachedNamed::isThere).count();
        while (client.getAvailableServers().size() < there && System.nanoTime() < end) {
            Thread.sleep(5);
        }
        if (!takesOrders && !client.getUnavailableServers().isEmpty()) {
            throw new IllegalStateException("no connection to " + client.getUnavailableServers());
        }
    }

    // Asks for these keys at once, and takes out each that is answered within so many milliseconds.
    void askOnce(Function<String, Future<?>> ask, BitSet wanted, long patience) {
        int[] numbers = wanted.stream().toArray();
        List<Future<?>> answers = new ArrayList<>();
        for (int number : numbers) {
            answers.add(ask.apply(keys + "-" + number));
        }
        // For all of them together.
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patience);
        for (int place = 0; place < numbers.length; place++) {
            try {
                Object value = answers.get(place).get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
                lacking.set(numbers[place], value == null || value.equals(false));
                wanted.clear(numbers[place]);
            } catch (Exception miss) {
                // The pod is away, or late.
                firstMiss = firstMiss == null ? miss : firstMiss;
            }
        }
    }

    // Whether a server that is there has not answered in time. A late answer is no miss.
    boolean isLate(BitSet unanswered) {
        return unanswered.stream().anyMatch(number -> client.getNodeLocator().getPrimary(keys + "-" + number).isActive());
    }

    // Asks for these keys. A server that is there and late is asked again, for no more than `left` nanoseconds in all. Gives how many
    // of them are left.
    long ask(Function<String, Future<?>> ask, BitSet numbers, long patience, long left) throws Exception {
        lacking.or(numbers);
        BitSet wanted = (BitSet) numbers.clone();
        for (boolean again = false; !again || (isLate(wanted) && left > 0); again = true) {
            long begin = System.nanoTime();
            if (takesOrders) {
                System.out.println("...");
            }
            if (again) {
                Thread.sleep(50);
            }
            askOnce(ask, wanted, patience);
            left -= again ? System.nanoTime() - begin : 0;
        }
        return left;
    }

    int share(Function<String, Future<?>> ask, long patience) throws Exception {
        long left = TimeUnit.SECONDS.toNanos(ASKS_AGAIN);
        for (int first = 0; first < KEYS; first += BATCH) {
            BitSet batch = new BitSet();
            batch.set(first, Math.min(first + BATCH, KEYS));
            left = ask(ask, batch, TimeUnit.SECONDS.toMillis(patience), left);
        }
        return 100 * (KEYS - lacking.cardinality()) / KEYS;
    }

    int read(long patience) throws Exception {
        int share = share(key -> client.asyncGet(key), patience);
        misses.or(lacking);
        return share;
    }

    String missed() {
        String numbers = misses.stream().mapToObj(Integer::toString).collect(Collectors.joining(" "));
        misses.clear();
        return numbers;
    }

    int work(int count) throws Exception {
        BitSet some = new BitSet();
        for (int done = 0; done < count; done++) {
            some.set(next);
            next = (next + 1) % KEYS;
        }
        long left = ask(key -> client.asyncGet(key), some, PATIENCE_AT_WORK, TimeUnit.SECONDS.toNanos(ASKS_AGAIN));
        some.and(lacking);
        ask(key -> client.set(key, 0, "value"), some, PATIENCE_AT_WORK, left);
        return 100 * (count - some.cardinality()) / count;
    }

    int order(String... words) throws Exception {
        switch (words[0]) {
            case "store":
                keys = words[2];
                next = 0;
                misses.clear();
                use(words[1], true);
                return share(key -> client.set(key, 0, "value"), patience);
            case "find":
                use(words[1], false);
                return read(patience);
            case "work":
                use(words[1], false);
                return work(Integer.parseInt(words[2]));
            case "read":
                return read(PATIENCE_WHILE_AWAY);
            default:
                use(servers, false);
                share(key -> client.set(key, 0, "value"), patience);
                return read(patience);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Security.setProperty("networkaddress.cache.ttl", "0");
        Security.setProperty("networkaddress.cache.negative.ttl", "0");
        HitRatios ratios = new HitRatios(arguments[0], arguments.length == 1);
        for (int pair = 1; pair < arguments.length; pair += 2) {
            if (ratios.order("store", arguments[pair], ProcessHandle.current().pid() + "-" + pair) < 100) {
                throw new IllegalStateException("not all keys are stored", ratios.firstMiss);
            }
            System.out.println(ratios.order("find", arguments[pair + 1]));
        }
        for (Scanner orders = new Scanner(System.in); ratios.takesOrders && orders.hasNextLine();) {
            String[] words = orders.nextLine().split(" ");
            System.out.println(words[0].equals("missed") ? ratios.missed() : String.valueOf(ratios.order(words)));
        }
        System.exit(0);
    }
}
