import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/** A member of a group in ZooKeeper, as 0.8 has them: ZOOKEEPER GROUP TOPIC. Prints partition, offset and value of each record. */
public class GroupConsumer {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("zookeeper.session.timeout.ms", "4000");
        settings.put("zookeeper.sync.time.ms", "500");
        settings.put("rebalance.backoff.ms", "2000");
        settings.put("rebalance.max.retries", "30");
        settings.put("refresh.leader.backoff.ms", "200");
        settings.put("auto.commit.interval.ms", "300");
        settings.put("auto.offset.reset", "smallest");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        Map<String, List<KafkaStream<byte[], byte[]>>> streams = connector.createMessageStreams(Collections.singletonMap(arguments[2], 1));
        ConsumerIterator<byte[], byte[]> records = streams.get(arguments[2]).get(0).iterator();
        while (records.hasNext()) {
            MessageAndMetadata<byte[], byte[]> record = records.next();
            System.out.println(record.partition() + "\t" + record.offset() + "\t" + new String(record.message()));
        }
    }
}
