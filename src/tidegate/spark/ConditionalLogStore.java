package tidegate.spark;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;

import io.delta.storage.S3SingleDriverLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * Entries of a Delta log on S3 that never take the place of others: the server itself refuses the second of two.
 *
 * Delta's own store for S3 looks whether an entry is there and then writes it, which is safe within one driver only.
 * What was refused is told as Delta expects it, so that it looks at the other commit and goes on with the next version.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {

    private static final String ONLY_WHERE_NOTHING_IS = "fs.option.create.conditional.overwrite";

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        FSDataOutputStreamBuilder builder = path.getFileSystem(configuration).createFile(path);
        builder.recursive().overwrite(overwrite);
        if (!overwrite) {
            builder.must(ONLY_WHERE_NOTHING_IS, true);
        }
        FSDataOutputStream entry = (FSDataOutputStream) builder.build();
        try {
            while (actions.hasNext()) {
                entry.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
            }
        } catch (Throwable problem) {
            entry.abort();
            throw problem;
        }
        try {
            entry.close();
        } catch (RemoteFileChangedException taken) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }
}
