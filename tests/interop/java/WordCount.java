import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** Counts the words of one topic into another, exactly once, with its counts in a store: WordCount ADDRESS STATE SOURCE TARGET [SETTING=VALUE | SETTING to remove …]. */
public class WordCount {
    public static void main(String[] said) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", said[0]);
        settings.put("state.dir", said[1]);
        settings.put("application.id", "count-" + said[2]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("num.stream.threads", "1");
        settings.put("default.key.serde", Serdes.String().getClass());
        settings.put("default.value.serde", Serdes.String().getClass());
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("group.instance.id", "counter");
        settings.put("transaction.timeout.ms", "3000");
        settings.put("reconnect.backoff.max.ms", "200");
        for (String setting : Arrays.asList(said).subList(4, said.length)) {
            String[] parts = setting.split("=", 2);
            settings.remove(parts[0]);
            if (parts.length > 1) {
                settings.put(parts[0], parts[1]);
            }
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(said[2])
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(said[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch done = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            done.countDown();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        done.await();
        Runtime.getRuntime().halt(1);
    }
}
