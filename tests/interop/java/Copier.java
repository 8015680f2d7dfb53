import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies records to two topics, a transaction at a time with the offsets inside, as tests/torture/copier.py does:
 * Copier ADDRESS NOTES LIFE TRANSACTIONAL_ID INSTANCE PROTOCOL SOURCE TARGETS (of which several, with commas).
 */
public class Copier {
    private static final int BATCH = 40;
    private static final double ABORTS = 0.2;

    private final FileOutputStream notes;
    private final String life;
    private final String source;
    private final String[] targets;
    private final Random random = new Random();
    private final Properties writing;
    private KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, Long> next = new HashMap<>();
    private int transaction = 0;
    private boolean rebalanced = false;
    private static volatile boolean going = true;

    private interface Step {
        void run() throws Exception;
    }

    Copier(String[] said) throws Exception {
        notes = new FileOutputStream(said[1], true);
        life = said[2];
        source = said[6];
        targets = said[7].split(",");
        writing = producerSettings(said);
        consumer = new KafkaConsumer<>(consumerSettings(said), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Properties common(String address) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("reconnect.backoff.ms", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("metadata.max.age.ms", "5000");
        return settings;
    }

    private static Properties producerSettings(String[] said) {
        Properties settings = common(said[0]);
        settings.put("transactional.id", said[3]);
        settings.put("transaction.timeout.ms", "10000");
        settings.put("linger.ms", "0");
        settings.put("max.block.ms", "20000");
        return settings;
    }

    private static Properties consumerSettings(String[] said) {
        Properties settings = common(said[0]);
        settings.put("group.id", "copiers");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", Integer.toString(BATCH));
        settings.put("group.protocol", said[5]);
        if (!said[4].equals("-")) {
            settings.put("group.instance.id", said[4]);
        }
        if (said[5].equals("classic")) {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
        }
        return settings;
    }

    private void note(String line) {
        try {
            notes.write((line + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** Until it is done: what runs out of time, because the broker is away, is asked again. */
    private static void insist(Step step) throws Exception {
        for (int attempt = 0; ; attempt++) {
            try {
                step.run();
                return;
            } catch (TimeoutException late) {
                if (attempt == 10) {
                    throw late;
                }
            }
        }
    }

    /** Another producer of the same transactions. */
    private void renew() throws Exception {
        if (producer != null) {
            producer.close();
        }
        producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
        insist(producer::initTransactions);
    }

    void serve() throws Exception {
        renew();
        consumer.subscribe(List.of(source), new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                rebalanced = true;
            }

            public void onPartitionsAssigned(Collection<TopicPartition> come) {
                rebalanced = true;
            }
        });
        while (going) {
            ConsumerRecords<byte[], byte[]> batch = consumer.poll(Duration.ofMillis(200));
            if (rebalanced) {
                rebalanced = false;
                rewind();
            } else if (!batch.isEmpty() && !(followsOn(batch) && copied(batch))) {
                rewind();
            }
        }
        consumer.close();
        producer.close();
    }

    /** Whether it begins where the last one ended, or where this copier went back to; the source's offsets have no gaps. */
    private boolean followsOn(ConsumerRecords<byte[], byte[]> batch) {
        for (ConsumerRecord<byte[], byte[]> record : batch) {
            TopicPartition place = new TopicPartition(record.topic(), record.partition());
            Long expected = next.put(place, record.offset() + 1);
            if (expected != null && expected != record.offset()) {
                note("jumped " + record.partition() + ":" + expected + "-" + record.offset());
                return false;
            }
        }
        return true;
    }

    /** Whether a batch was copied and its transaction committed. Throws what ends this copier, as when it is fenced. */
    private boolean copied(ConsumerRecords<byte[], byte[]> batch) throws Exception {
        int number = transaction++;
        boolean taken = false, asked = false;
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> ends = write(batch, number);
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            taken = true;
            if (random.nextDouble() < ABORTS) {
                producer.flush();
                abort(number, batch);
                return false;
            }
            note("commit " + number + " " + batch.count() * targets.length + stretches(batch));
            asked = true;
            insist(producer::commitTransaction);
            note("committed " + number);
            return true;
        } catch (org.apache.kafka.common.KafkaException failure) {
            note("refused " + failure.getClass().getSimpleName() + " " + told(failure) + (failure.getCause() == null ? "" : ": " + told(failure.getCause())));
            if (asked && failure instanceof TimeoutException) {
                throw failure;
            }
            abort(number, batch);
            if (!taken) {
                // The client (4.3) keeps offsets that it could not send, and has the next transaction commit them too.
                renew();
            }
            return false;
        }
    }

    /** Of each partition the first and last offset: " 0:40-79 2:17-17". */
    private static String stretches(ConsumerRecords<byte[], byte[]> batch) {
        StringBuilder found = new StringBuilder();
        for (TopicPartition place : batch.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> records = batch.records(place);
            long first = records.get(0).offset(), last = records.get(records.size() - 1).offset();
            found.append(" " + place.partition() + ":" + first + "-" + last);
        }
        return found.toString();
    }

    private static String told(Throwable failure) {
        return String.valueOf(failure.getMessage()).replace('\n', ' ');
    }

    private Map<TopicPartition, OffsetAndMetadata> write(ConsumerRecords<byte[], byte[]> batch, int number) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        int index = 0, count = batch.count() * targets.length;
        for (ConsumerRecord<byte[], byte[]> record : batch) {
            for (int target = 0; target < targets.length; target++) {
                String place = String.join(" ", life, "" + number, "" + index++, "" + count, "" + record.partition(), "" + record.offset());
                byte[] value = (place + " " + new String(record.value(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(targets[target], record.partition(), null, value));
            }
            ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        return ends;
    }

    private void abort(int number, ConsumerRecords<byte[], byte[]> batch) throws Exception {
        note("abort " + number + stretches(batch));
        insist(producer::abortTransaction);
        note("aborted " + number);
    }

    /** To where the group has committed. */
    private void rewind() throws Exception {
        next.clear();
        insist(() -> consumer.committed(consumer.assignment()).forEach(this::rewind));
    }

    private void rewind(TopicPartition place, OffsetAndMetadata committed) {
        long offset = committed == null ? 0 : committed.offset();
        note("rewound " + place.partition() + ":" + offset);
        next.put(place, offset);
        consumer.seek(place, offset);
    }

    public static void main(String[] said) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            going = false;
            try {
                done.await();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        int code = 0;
        try {
            new Copier(said).serve();
        } catch (Throwable failure) {
            failure.printStackTrace();
            code = 1;
        }
        done.countDown();
        Runtime.getRuntime().halt(code);
    }
}
