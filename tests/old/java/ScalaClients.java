import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.OffsetAndMetadata;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.message.ByteBufferMessageSet;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/**
 * The Scala clients of 0.8, by command: produce ADDRESS COUNT TOPIC=CODEC …, consume ADDRESS COUNT TOPIC …, offsets ADDRESS GROUP TOPIC.
 * Prints a line for each record or answer, its fields parted by tabs.
 */
public class ScalaClients {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[1];
        if (arguments[0].equals("produce")) {
            for (int i = 3; i < arguments.length; i++) {
                String[] wanted = arguments[i].split("=");
                produce(address, wanted[0], wanted[1], Integer.parseInt(arguments[2]));
            }
            return;
        }
        int colon = address.lastIndexOf(':');
        int port = Integer.parseInt(address.substring(colon + 1));
        SimpleConsumer consumer = new SimpleConsumer(address.substring(0, colon), port, 10_000, 64 * 1024, "scala");
        for (int i = 3; i < arguments.length; i++) {
            if (arguments[0].equals("consume")) {
                fetch(consumer, arguments[i], Integer.parseInt(arguments[2]));
            } else {
                offsets(consumer, arguments[i], arguments[2]);
            }
        }
        consumer.close();
    }

    static void produce(String address, String topic, String codec, int count) {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", address);
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        settings.put("compression.codec", codec);
        settings.put("request.required.acks", "-1");
        settings.put("message.send.max.retries", "10");
        Producer<String, String> producer = new Producer<String, String>(new ProducerConfig(settings));
        List<KeyedMessage<String, String>> messages = new ArrayList<KeyedMessage<String, String>>();
        for (int i = 0; i < count; i++) {
            messages.add(new KeyedMessage<String, String>(topic, "k" + i, "v" + i));
        }
        producer.send(messages);
        producer.close();
    }

    static void fetch(SimpleConsumer consumer, String topic, int count) throws Exception {
        long next = 0;
        for (int rounds = 0; next < count && rounds < 1000; rounds++) {
            FetchRequestBuilder request = new FetchRequestBuilder().addFetch(topic, 0, next, 100_000);
            FetchResponse response = consumer.fetch(request.maxWait(100).minBytes(1).build());
            if (response.hasError()) {
                System.out.println(topic + "\terror " + response.errorCode(topic, 0));
                return;
            }
            ByteBufferMessageSet set = response.messageSet(topic, 0);
            for (MessageAndOffset each : set) {
                if (each.offset() >= next) {
                    String key = text(each.message().key()), value = text(each.message().payload());
                    System.out.println(topic + "\t" + each.offset() + "\t" + key + "\t" + value);
                    next = each.nextOffset();
                }
            }
        }
    }

    /** The last and the first offset; then what GROUP has committed, before and after a commit, in both of 0.8.2's stores. */
    static void offsets(SimpleConsumer consumer, String topic, String group) {
        TopicAndPartition where = new TopicAndPartition(topic, 0);
        for (long time : new long[] {-1, -2}) {
            PartitionOffsetRequestInfo wanted = new PartitionOffsetRequestInfo(time, 10);
            OffsetRequest request = new OffsetRequest(Collections.singletonMap(where, wanted), (short) 0, "scala");
            long[] found = consumer.getOffsetsBefore(request).offsets(topic, 0);
            System.out.println("before " + time + "\t" + found[0]);
        }
        for (short version : new short[] {0, 1}) {
            print(consumer, group, where, version);
            Map<TopicAndPartition, OffsetAndMetadata> commit = new HashMap<TopicAndPartition, OffsetAndMetadata>();
            commit.put(where, new OffsetAndMetadata(5 + version, "note", -1L));
            Object error = consumer.commitOffsets(new OffsetCommitRequest(group, commit, 1, "scala", version)).errors().get(where);
            System.out.println("commit v" + version + "\t" + error);
            print(consumer, group, where, version);
        }
    }

    static void print(SimpleConsumer consumer, String group, TopicAndPartition where, short version) {
        OffsetFetchRequest request = new OffsetFetchRequest(group, Collections.singletonList(where), version, 1, "scala");
        kafka.common.OffsetMetadataAndError found = consumer.fetchOffsets(request).offsets().get(where);
        System.out.println("fetch v" + version + "\t" + found.offset() + "\t" + found.error());
    }

    static String text(ByteBuffer buffer) {
        if (buffer == null) {
            return "";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes);
    }
}
