import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** For each pattern on its input, a line each: which of its arguments the pattern matches as a whole, or that it is illegal. */
public class KafkaPatterns {
    public static void main(String[] names) throws Exception {
        BufferedReader patterns = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String text = patterns.readLine(); text != null; text = patterns.readLine()) {
            StringBuilder answer = new StringBuilder("matches ");
            try {
                Pattern pattern = Pattern.compile(text);
                for (String name : names) if (pattern.matcher(name).matches()) answer.append(name).append(' ');
                out.println(answer.length() > 8 ? answer.toString().stripTrailing() : answer);
            } catch (PatternSyntaxException illegal) {
                out.println("illegal");
            }
        }
    }
}
