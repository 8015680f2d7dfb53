import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command-line tools one after another in one Java machine: its start costs more than most tools do.
 *
 * Each line of standard input is a tool's class and its arguments, with tabs between. What the tool writes goes to standard output,
 * and after it a line with the byte 4 and the tool's exit code.
 */
public final class Toolbox {
    private static final int RUNS = -1;
    private static volatile int code = RUNS;

    /** Where a tool would have ended the machine. What it says while it passes through the tool's own catches is nobody's. */
    private static final class Ended extends Error {
        Ended() {
            super("", null, false, false);
        }
    }

    private static final class Said extends OutputStream {
        private final OutputStream out;

        Said(OutputStream out) {
            this.out = out;
        }

        @Override
        public void write(int octet) throws java.io.IOException {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] octets, int from, int count) throws java.io.IOException {
            if (code == RUNS) {
                out.write(octets, from, count);
            }
        }
    }

    public static void main(String[] unused) throws Exception {
        OutputStream out = new FileOutputStream(FileDescriptor.out);
        PrintStream said = new PrintStream(new Said(out), true, "UTF-8");
        System.setOut(said);
        System.setErr(said);
        Exit.setExitProcedure((status, message) -> { end(status); throw new Ended(); });
        Exit.setHaltProcedure((status, message) -> { end(status); throw new Ended(); });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            code = RUNS;
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            out.write(("\n\4" + code + "\n").getBytes(StandardCharsets.UTF_8));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            end(0);
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace();
            end(1);
        }
    }

    private static void end(int status) {
        if (code == RUNS) {
            code = status;
        }
    }
}
