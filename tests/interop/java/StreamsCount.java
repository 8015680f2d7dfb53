import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Counts the words of one topic into another as a member of a streams group: StreamsCount ADDRESS STATE SOURCE TARGET [SETTING=VALUE …].
 *
 * Words are repartitioned, and their counts kept in a store. Each line of standard input is a question, answered by one line:
 * state, tasks, endpoints, restored, get WORD, find WORD, shutdown (ends after it closed) and fail (a fatal error shuts the whole application down).
 */
public final class StreamsCount {
    private static final String STORE = "counts";
    private static final AtomicLong restored = new AtomicLong();
    private static volatile boolean fails;

    public static void main(String[] said) throws Exception {
        Properties settings = settings(said);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(said[2])
            .flatMapValues(line -> List.of(line.split(" ")))
            .peek((key, word) -> {
                if (fails) {
                    throw new IllegalStateException("it was told to fail");
                }
            })
            .groupBy((key, word) -> word)
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(said[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return fails ? StreamThreadExceptionResponse.SHUTDOWN_APPLICATION : StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setGlobalStateRestoreListener(new Restored());
        streams.start();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ", 2);
            System.out.println("= " + answer(streams, words[0], words.length > 1 ? words[1] : ""));
            if (words[0].equals("shutdown")) {
                break;
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static Properties settings(String[] said) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", said[0]);
        settings.put("state.dir", said[1]);
        settings.put("application.id", "count-" + said[2]);
        settings.put("group.protocol", "streams");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("num.stream.threads", "1");
        settings.put("default.key.serde", Serdes.String().getClass());
        settings.put("default.value.serde", Serdes.String().getClass());
        settings.put("auto.offset.reset", "earliest");
        settings.put("transaction.timeout.ms", "3000");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("metadata.max.age.ms", "500");
        for (String setting : Arrays.asList(said).subList(4, said.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        return settings;
    }

    private static String answer(KafkaStreams streams, String question, String word) {
        try {
            return switch (question) {
                case "state" -> streams.state().toString();
                case "tasks" -> tasks(streams.metadataForLocalThreads());
                case "endpoints" -> endpoints(streams.metadataForAllStreamsClients());
                case "restored" -> Long.toString(restored.get());
                case "get" -> String.valueOf(store(streams).get(word));
                case "find" -> place(streams.queryMetadataForKey(STORE, word, Serdes.String().serializer()));
                case "fail" -> String.valueOf(fails = true);
                case "shutdown" -> {
                    streams.close(Duration.ofSeconds(20));
                    yield "closed";
                }
                default -> "unknown";
            };
        } catch (RuntimeException failure) {
            return "! " + failure;
        }
    }

    private static ReadOnlyKeyValueStore<String, Long> store(KafkaStreams streams) {
        return streams.store(
            StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.<String, Long>keyValueStore()).enableStaleStores());
    }

    /** active 0_0,1_0 standby 1_1 */
    private static String tasks(Collection<ThreadMetadata> threads) {
        TreeSet<String> active = new TreeSet<>();
        TreeSet<String> standby = new TreeSet<>();
        for (ThreadMetadata thread : threads) {
            thread.activeTasks().stream().map(TaskMetadata::taskId).forEach(task -> active.add(task.toString()));
            thread.standbyTasks().stream().map(TaskMetadata::taskId).forEach(task -> standby.add(task.toString()));
        }
        return "active " + String.join(",", active) + " standby " + String.join(",", standby);
    }

    /** 127.0.0.1:1 active topic-0,topic-1 standby topic-2; … */
    private static String endpoints(Collection<StreamsMetadata> clients) {
        TreeMap<String, String> found = new TreeMap<>();
        for (StreamsMetadata client : clients) {
            found.put(
                client.host() + ":" + client.port(),
                " active " + names(client.topicPartitions()) + " standby " + names(client.standbyTopicPartitions()));
        }
        return found.entrySet().stream().map(entry -> entry.getKey() + entry.getValue()).collect(Collectors.joining("; "));
    }

    private static String names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(","));
    }

    private static String place(KeyQueryMetadata found) {
        return found == null || found.activeHost() == null ? "unknown" : found.activeHost().host() + ":" + found.activeHost().port();
    }

    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
            restored.addAndGet(count);
        }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long total) {
        }
    }
}
