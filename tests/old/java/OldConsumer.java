import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * ADDRESS GROUP COUNT TOPIC …: read COUNT records of all topics together as a member of the group, commit, leave.
 * Prints topic, offset, key and value of each record, parted by tabs.
 */
public class OldConsumer {
    static final long PATIENCE_MS = 30_000;

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<String, String>(settings);
        consumer.subscribe(Arrays.asList(arguments).subList(3, arguments.length));
        long until = System.currentTimeMillis() + PATIENCE_MS;
        for (int seen = 0; seen < count && System.currentTimeMillis() < until; ) {
            ConsumerRecords<String, String> records = consumer.poll(200);
            for (ConsumerRecord<String, String> record : records) {
                System.out.println(record.topic() + "\t" + record.offset() + "\t" + record.key() + "\t" + record.value());
                seen++;
            }
            if (!records.isEmpty()) {
                consumer.commitSync();
            }
        }
        consumer.close();
    }
}
