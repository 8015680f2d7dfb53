import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** ADDRESS COUNT TOPIC=CODEC …: write records k0 v0, k1 v1 … to each topic; prints topic and offset of each, parted by tabs. */
public class OldProducer {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        for (int i = 2; i < arguments.length; i++) {
            String[] wanted = arguments[i].split("=");
            produce(arguments[0], wanted[0], wanted[1], count);
        }
    }

    static void produce(String address, String topic, String codec, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("compression.type", codec);
        settings.put("acks", "all");
        settings.put("linger.ms", "20");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<String, String>(settings);
        Future<?>[] sent = new Future<?>[count];
        for (int i = 0; i < count; i++) {
            sent[i] = producer.send(new ProducerRecord<String, String>(topic, 0, "k" + i, "v" + i));
        }
        for (Future<?> each : sent) {
            System.out.println(topic + "\t" + ((RecordMetadata) each.get()).offset());
        }
        producer.close();
    }
}
