import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Answers groups on its input with what Apache Kafka's assignors make of them. Lines of a group, fields divided by blanks:
 * "topic NUMBER PARTITIONS", "member ID INSTANCE-OR-- TOPIC,... TOPIC:PARTITION,...", then "assign NAME"; "-" is an empty list.
 * An answer is a line "ID TOPIC:PARTITION,..." for each member, then "end".
 */
public class KafkaAssign {
    static final Map<Uuid, Integer> topics = new HashMap<>();
    static final Map<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
    static final Map<Uuid, Map<Integer, String>> owners = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic": topics.put(id(words[1]), Integer.parseInt(words[2])); break;
                case "member": member(words); break;
                default: tried(words[1]);
            }
        }
    }

    static Uuid id(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    static String[] list(String word) {
        return word.equals("-") ? new String[0] : word.split(",");
    }

    static void member(String[] words) {
        Set<Uuid> subscribed = new TreeSet<>();
        for (String topic : list(words[3])) subscribed.add(id(topic));
        Map<Uuid, Set<Integer>> owned = new TreeMap<>();
        for (String pair : list(words[4])) {
            Uuid topic = id(pair.split(":")[0]);
            int partition = Integer.parseInt(pair.split(":")[1]);
            owned.computeIfAbsent(topic, any -> new TreeSet<>()).add(partition);
            owners.computeIfAbsent(topic, any -> new HashMap<>()).put(partition, words[1]);
        }
        Optional<String> instance = words[2].equals("-") ? Optional.empty() : Optional.of(words[2]);
        members.put(words[1], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, subscribed, new Assignment(owned)));
    }

    static void tried(String name) {
        try {
            answer(name);
        } catch (RuntimeException failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    static void answer(String name) {
        ConsumerGroupPartitionAssignor assignor = name.equals("range") ? new RangeAssignor() : new UniformAssignor();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        members.values().forEach(member -> subscriptions.add(member.subscribedTopicIds()));
        SubscriptionType type = subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        var assigned = assignor.assign(new GroupSpecImpl(members, type, owners), new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return topics.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int partition) { throw new IllegalStateException("racks are read"); }
        });
        StringBuilder out = new StringBuilder();
        assigned.members().forEach((member, assignment) -> {
            TreeSet<String> pairs = new TreeSet<>();
            assignment.partitions().forEach((topic, partitions) ->
                partitions.forEach(partition -> pairs.add(topic.getLeastSignificantBits() + ":" + partition)));
            out.append(member).append(' ').append(pairs.isEmpty() ? "-" : String.join(",", pairs)).append('\n');
        });
        System.out.println(out.append("end"));
        topics.clear();
        members.clear();
        owners.clear();
    }
}
