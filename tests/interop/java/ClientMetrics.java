import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Lets a producer, a consumer of each group protocol and an admin client work a little, and prints their metrics as lines of client,
 * group, name and names of tags; then waits for a line of input, while they push their metrics: ClientMetrics ADDRESS.
 */
public class ClientMetrics {
    private final String address;
    private final TreeSet<String> lines = new TreeSet<>();

    private ClientMetrics(String address) {
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        new ClientMetrics(arguments[0]).run();
    }

    private Properties named(String client) {
        Properties made = new Properties();
        made.put("bootstrap.servers", address);
        made.put("client.id", client);
        made.put("enable.metrics.push", "true");
        return made;
    }

    private void run() throws Exception {
        Properties writing = named("producer");
        writing.put("key.serializer", ByteArraySerializer.class.getName());
        writing.put("value.serializer", ByteArraySerializer.class.getName());
        writing.put("transactional.id", "metrics");
        try (Admin admin = Admin.create(named("admin"));
                KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing)) {
            admin.createTopics(List.of(new NewTopic("metered", 1, (short) 1))).all().get();
            producer.initTransactions();
            List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
            for (String protocol : List.of("classic", "consumer")) {
                consumers.add(consumer(protocol));
                long until = System.currentTimeMillis() + 30_000;
                while (consumers.get(consumers.size() - 1).assignment().isEmpty() && System.currentTimeMillis() < until) {
                    consumers.get(consumers.size() - 1).poll(Duration.ofMillis(100));
                }
            }
            for (int number = 0; number < 5; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("metered", new byte[] {1}, new byte[100])).get();
                producer.commitTransaction();
                for (KafkaConsumer<byte[], byte[]> each : consumers) {
                    each.poll(Duration.ofMillis(200));
                    each.commitSync();
                    each.committed(java.util.Set.of(new TopicPartition("metered", 0)));
                }
            }
            print("producer", producer.metrics());
            print("classic", consumers.get(0).metrics());
            print("consumer", consumers.get(1).metrics());
            print("admin", admin.metrics());
            lines.forEach(System.out::println);
            System.out.println("done");
            System.out.flush();
            System.in.read();
            consumers.forEach(KafkaConsumer::close);
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String protocol) {
        Properties reading = named(protocol);
        reading.put("key.deserializer", ByteArrayDeserializer.class.getName());
        reading.put("value.deserializer", ByteArrayDeserializer.class.getName());
        reading.put("group.id", "of-" + protocol);
        reading.put("group.protocol", protocol);
        reading.put("auto.offset.reset", "earliest");
        KafkaConsumer<byte[], byte[]> made = new KafkaConsumer<>(reading);
        made.subscribe(List.of("metered"));
        return made;
    }

    private void print(String client, Map<MetricName, ? extends Metric> metrics) {
        for (MetricName name : metrics.keySet()) {
            lines.add(client + "\t" + name.group() + "\t" + name.name() + "\t" + String.join(",", new TreeSet<>(name.tags().keySet())));
        }
    }
}
