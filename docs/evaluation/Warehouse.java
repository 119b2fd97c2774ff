// SPDX-License-Identifier: GPL-2.0-only
// A server on a real JVM, beside the workloads `warehouse` and `nursery`: a thread for each
// warehouse changes its stock and writes orders, and all of them stop for each collection.
// Usage: java Warehouse THREADS TRANSACTIONS
import java.util.ArrayDeque;
import java.util.TreeMap;

public final class Warehouse implements Runnable {
    private static final int ITEMS = 2000;
    private static final int KEPT = 200;

    private final int transactions;
    private long random;
    private long total;

    private Warehouse(int number, int transactions) {
        this.transactions = transactions;
        this.random = 88172645463325252L + number;
    }

    private int below(int limit) {
        random ^= random << 13;
        random ^= random >>> 7;
        random ^= random << 17;
        return (int) Long.remainderUnsigned(random, limit);
    }

    @Override
    public void run() {
        TreeMap<Integer, long[]> stock = new TreeMap<>();
        for (int item = 0; item < ITEMS; item++) {
            stock.put(item, new long[] {100, 0});
        }
        ArrayDeque<StringBuilder> orders = new ArrayDeque<>();
        for (int done = 0; done < transactions; done++) {
            StringBuilder order = new StringBuilder();
            for (int line = 0; line < 10; line++) {
                int item = below(ITEMS);
                long[] there = stock.get(item);
                stock.put(item, new long[] {there[0] > 0 ? there[0] - 1 : 100, there[1] + 1});
                order.append(item).append(':').append(there[0]).append('\n');
            }
            orders.addLast(order);
            if (orders.size() > KEPT) {
                total += orders.removeFirst().length();
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Warehouse[] all = new Warehouse[Integer.parseInt(arguments[0])];
        Thread[] threads = new Thread[all.length];
        for (int number = 0; number < all.length; number++) {
            all[number] = new Warehouse(number, Integer.parseInt(arguments[1]));
            threads[number] = new Thread(all[number]);
            threads[number].start();
        }
        long total = 0;
        for (int number = 0; number < all.length; number++) {
            threads[number].join();
            total += all[number].total;
        }
        System.out.println(total);
    }
}
