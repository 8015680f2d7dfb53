import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What users of share groups do, one after the other: Sharing ADDRESS. Prints a line for each: its name, a tab, and what came of it. */
public class Sharing {
    private static final int LOCK_MS = 2000;
    private static final long PATIENCE_MS = 30_000;

    private static String address;
    private static Admin admin;

    private interface Use {
        Object run(String topic, String group) throws Exception;
    }

    private static Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        return settings;
    }

    private static KafkaShareConsumer<byte[], byte[]> member(String group, String... more) {
        Properties settings = common();
        settings.put("group.id", group);
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void configure(String group, String... settings) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (int i = 0; i < settings.length; i += 2) {
            changes.add(new AlterConfigOp(new ConfigEntry(settings[i], settings[i + 1]), AlterConfigOp.OpType.SET));
        }
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), changes)).all().get();
    }

    private static void produce(String topic, int from, int count, int partitions) throws Exception {
        Properties settings = common();
        settings.put("linger.ms", "0");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = from; i < from + count; i++) {
                producer.send(new ProducerRecord<>(topic, i % partitions, null, Integer.toString(i).getBytes(StandardCharsets.UTF_8)));
            }
            producer.flush();
        }
    }

    private static int number(ConsumerRecord<byte[], byte[]> record) {
        return Integer.parseInt(new String(record.value(), StandardCharsets.UTF_8));
    }

    private static boolean late(long began) {
        return System.currentTimeMillis() - began > PATIENCE_MS;
    }

    /** Records until there are `count` of them, or until it is late. */
    private static List<ConsumerRecord<byte[], byte[]>> take(KafkaShareConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> taken = new ArrayList<>();
        long began = System.currentTimeMillis();
        while (taken.size() < count && !late(began)) {
            consumer.poll(Duration.ofMillis(200)).forEach(taken::add);
        }
        return taken;
    }

    private static Object implicit(String topic, String group) throws Exception {
        produce(topic, 0, 100, 1);
        Map<Integer, Integer> seen = new TreeMap<>();
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group)) {
            consumer.subscribe(List.of(topic));
            take(consumer, 100).forEach(record -> seen.merge(number(record), 1, Integer::sum));
            consumer.commitSync();
        }
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group)) {
            consumer.subscribe(List.of(topic));
            produce(topic, 100, 1, 1);
            take(consumer, 1).forEach(record -> seen.merge(number(record), 1, Integer::sum));
            consumer.commitSync();
        }
        return seen.size() + " records, each " + new TreeSet<>(seen.values());
    }

    private static Object explicit(String topic, String group) throws Exception {
        produce(topic, 0, 30, 1);
        TreeSet<Integer> accepted = new TreeSet<>(), again = new TreeSet<>();
        Set<Integer> counts = new TreeSet<>();
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "share.acknowledgement.mode", "explicit")) {
            consumer.subscribe(List.of(topic));
            long began = System.currentTimeMillis();
            while (accepted.size() < 20 && !late(began)) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    int number = number(record), delivery = record.deliveryCount().get();
                    if (delivery > 1) {
                        again.add(number);
                        counts.add(delivery);
                    }
                    if (number % 3 == 0) {
                        consumer.acknowledge(record, AcknowledgeType.REJECT);
                    } else if (number % 3 == 1 && delivery == 1) {
                        consumer.acknowledge(record, AcknowledgeType.RELEASE);
                    } else {
                        consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                        accepted.add(number);
                    }
                }
                consumer.commitSync();
            }
        }
        boolean right = again.stream().allMatch(number -> number % 3 == 1);
        return accepted.size() + " accepted, " + again.size() + " again, " + (right ? "all released, " : "not all released, ") + "deliveries " + counts;
    }

    private static Object unacknowledged(String topic, String group) throws Exception {
        produce(topic, 0, 5, 1);
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "share.acknowledgement.mode", "explicit")) {
            consumer.subscribe(List.of(topic));
            take(consumer, 1);
            try {
                consumer.poll(Duration.ofMillis(100));
                return "polled";
            } catch (IllegalStateException refused) {
                return "refused";
            }
        }
    }

    private static Object closed(String topic, String group) throws Exception {
        produce(topic, 0, 10, 1);
        try (KafkaShareConsumer<byte[], byte[]> first = member(group, "share.acknowledgement.mode", "explicit")) {
            first.subscribe(List.of(topic));
            take(first, 10);
        }
        Set<Integer> deliveries = new TreeSet<>();
        int count;
        try (KafkaShareConsumer<byte[], byte[]> second = member(group)) {
            second.subscribe(List.of(topic));
            List<ConsumerRecord<byte[], byte[]>> taken = take(second, 10);
            taken.forEach(record -> deliveries.add((int) record.deliveryCount().get()));
            count = taken.size();
        }
        return count + " records, deliveries " + deliveries;
    }

    private static Object lockEnds(String topic, String group) throws Exception {
        configure(group, "share.record.lock.duration.ms", Integer.toString(LOCK_MS));
        produce(topic, 0, 10, 1);
        Map<String, Integer> results = new TreeMap<>();
        try (KafkaShareConsumer<byte[], byte[]> first = member(group, "share.acknowledgement.mode", "explicit");
             KafkaShareConsumer<byte[], byte[]> second = member(group, "share.acknowledgement.mode", "explicit")) {
            first.setAcknowledgementCommitCallback((offsets, failure) ->
                results.merge(failure == null ? "none" : failure.getClass().getSimpleName(), offsets.values().stream().mapToInt(Set::size).sum(), Integer::sum));
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            List<ConsumerRecord<byte[], byte[]>> held = take(first, 10);
            List<ConsumerRecord<byte[], byte[]>> taken = take(second, 10);
            Set<Integer> deliveries = new TreeSet<>();
            taken.forEach(record -> {
                deliveries.add((int) record.deliveryCount().get());
                second.acknowledge(record, AcknowledgeType.ACCEPT);
            });
            second.commitSync();
            held.forEach(record -> first.acknowledge(record, AcknowledgeType.ACCEPT));
            Map<TopicIdPartition, Optional<KafkaException>> told = first.commitSync();
            String failures = String.join(",", new TreeSet<>(told.values().stream().map(one -> one.map(e -> e.getClass().getSimpleName()).orElse("none")).toList()));
            first.poll(Duration.ofMillis(100));
            return held.size() + " held, " + taken.size() + " taken, deliveries " + deliveries + ", then " + failures + ", callback " + results;
        }
    }

    private static Object renew(String topic, String group) throws Exception {
        configure(group, "share.record.lock.duration.ms", Integer.toString(LOCK_MS));
        produce(topic, 0, 1, 1);
        try (KafkaShareConsumer<byte[], byte[]> first = member(group, "share.acknowledgement.mode", "explicit");
             KafkaShareConsumer<byte[], byte[]> second = member(group, "share.acknowledgement.mode", "explicit")) {
            first.subscribe(List.of(topic));
            List<ConsumerRecord<byte[], byte[]>> held = take(first, 1);
            second.subscribe(List.of(topic));
            int taken = 0;
            for (int turn = 0; turn < 4; turn++) {
                first.acknowledge(held.get(0), AcknowledgeType.RENEW);
                first.commitSync();
                taken += second.poll(Duration.ofMillis(LOCK_MS / 2)).count();
                held = take(first, 1);
            }
            first.acknowledge(held.get(0), AcknowledgeType.ACCEPT);
            Map<TopicIdPartition, Optional<KafkaException>> told = first.commitSync();
            boolean fine = told.values().stream().allMatch(Optional::isEmpty);
            return "held for " + 4 * LOCK_MS / 2 + " ms, " + taken + " taken by others, " + (fine ? "accepted" : "refused");
        }
    }

    private static Object limit(String topic, String group) throws Exception {
        configure(group, "share.delivery.count.limit", "3");
        produce(topic, 0, 4, 1);
        List<Integer> deliveries = new ArrayList<>();
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "share.acknowledgement.mode", "explicit")) {
            consumer.subscribe(List.of(topic));
            long began = System.currentTimeMillis();
            int idle = 0;
            while (idle < 5 && !late(began)) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                idle = records.isEmpty() && deliveries.size() >= 12 ? idle + 1 : 0;
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    deliveries.add((int) record.deliveryCount().get());
                    consumer.acknowledge(record, AcknowledgeType.RELEASE);
                }
                consumer.commitSync();
            }
        }
        return deliveries.size() + " deliveries, at most the " + deliveries.stream().max(Integer::compare).orElse(0) + "rd";
    }

    private static Object members(String topic, String group) throws Exception {
        int partitions = 3, count = 3000, members = 4;
        String wide = topic + "-wide";
        create(wide, partitions);
        Map<Integer, Integer> seen = new ConcurrentHashMap<>();
        Set<Integer> busy = ConcurrentHashMap.newKeySet();
        AtomicInteger failed = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        long began = System.currentTimeMillis();
        for (int i = 0; i < members; i++) {
            int own = i;
            Thread thread = new Thread(() -> {
                try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "max.poll.records", "50")) {
                    consumer.subscribe(List.of(wide));
                    while (seen.size() < count && !late(began)) {
                        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                        for (ConsumerRecord<byte[], byte[]> record : records) {
                            seen.merge(number(record), 1, Integer::sum);
                            busy.add(own);
                        }
                    }
                    consumer.commitSync();
                } catch (Exception failure) {
                    failure.printStackTrace();
                    failed.incrementAndGet();
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (int part = 0; part < 10; part++) {
            produce(wide, part * count / 10, count / 10, partitions);
            Thread.sleep(100);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return seen.size() + " records, each " + new TreeSet<>(seen.values()) + ", " + (busy.size() > 1 ? "several" : "one") + " busy, " + failed + " failed";
    }

    private static Object acquired(String topic, String group, String mode) throws Exception {
        Properties settings = common();
        settings.put("linger.ms", "500");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < 20; i++) {
                producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(i).getBytes(StandardCharsets.UTF_8)));
            }
            producer.flush();
        }
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "max.poll.records", "6", "share.acquire.mode", mode)) {
            consumer.subscribe(List.of(topic));
            int count = 0;
            long began = System.currentTimeMillis();
            while (count == 0 && !late(began)) {
                count = consumer.poll(Duration.ofMillis(200)).count();
            }
            return count + " at once";
        }
    }

    private static Object transactions(String topic, String group, String isolation) throws Exception {
        configure(group, "share.isolation.level", isolation);
        Properties settings = common();
        settings.put("transactional.id", group);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int part = 0; part < 4; part++) {
                producer.beginTransaction();
                for (int i = 0; i < 5; i++) {
                    byte[] value = Integer.toString(10 * part + i).getBytes(StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(topic, 0, null, value));
                }
                producer.flush();
                if (part % 2 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        TreeSet<Integer> seen = new TreeSet<>();
        int wanted = isolation.equals("read_committed") ? 10 : 20;
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group)) {
            consumer.subscribe(List.of(topic));
            take(consumer, wanted).forEach(record -> seen.add(number(record)));
            consumer.poll(Duration.ofMillis(300)).forEach(record -> seen.add(number(record)));
        }
        return seen.size() + " records from " + seen.first() + " to " + seen.last();
    }

    private static Object administered(String topic, String group) throws Exception {
        produce(topic, 0, 10, 1);
        String described;
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group)) {
            consumer.subscribe(List.of(topic));
            take(consumer, 10);
            consumer.commitSync();
            ShareGroupDescription found = admin.describeShareGroups(List.of(group)).all().get().get(group);
            described = found.groupState() + " with " + found.members().size();
        }
        TopicPartition place = new TopicPartition(topic, 0);
        boolean has = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get().containsKey(place);
        admin.alterShareGroupOffsets(group, Map.of(place, 4L)).all().get();
        int again;
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group)) {
            consumer.subscribe(List.of(topic));
            again = take(consumer, 6).size();
            consumer.commitSync();
        }
        admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
        boolean listed = admin.listGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group) && one.type().get().toString().equals("Share"));
        admin.deleteShareGroups(List.of(group)).all().get();
        boolean gone = admin.listGroups().all().get().stream().noneMatch(one -> one.groupId().equals(group));
        return described + ", " + (has ? "has" : "no") + " offset, again " + again + ", " + (listed ? "listed" : "not listed") + ", " + (gone ? "deleted" : "there");
    }

    private static void create(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
    }

    public static void main(String[] said) throws Exception {
        address = said[0];
        admin = Admin.create(common());
        Map<String, Use> uses = new java.util.LinkedHashMap<>();
        uses.put("implicit", Sharing::implicit);
        uses.put("explicit", Sharing::explicit);
        uses.put("unacknowledged", Sharing::unacknowledged);
        uses.put("closed", Sharing::closed);
        uses.put("lock", Sharing::lockEnds);
        uses.put("renew", Sharing::renew);
        uses.put("limit", Sharing::limit);
        uses.put("members", Sharing::members);
        uses.put("batches", (topic, group) -> acquired(topic, group, "batch_optimized"));
        uses.put("records", (topic, group) -> acquired(topic, group, "record_limit"));
        uses.put("committed", (topic, group) -> transactions(topic, group, "read_committed"));
        uses.put("uncommitted", (topic, group) -> transactions(topic, group, "read_uncommitted"));
        uses.put("administered", Sharing::administered);
        for (Map.Entry<String, Use> use : uses.entrySet()) {
            if (said.length > 1 && !List.of(said).contains(use.getKey())) {
                continue;
            }
            String topic = "sharing-" + use.getKey(), group = "sharers-" + use.getKey();
            Object told;
            try {
                create(topic, 1);
                configure(group, "share.auto.offset.reset", "earliest");
                told = use.getValue().run(topic, group);
            } catch (Throwable failure) {
                failure.printStackTrace();
                told = "failed: " + failure;
            }
            System.out.println(use.getKey() + "\t" + told);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
