package tidegate.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;

import io.delta.storage.S3SingleDriverLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions;
import org.apache.hadoop.fs.s3a.impl.StoreContext;
import software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.S3Exception;

/**
 * Entries of a Delta log on S3 that never replace others, for Hadoop 3.4.1.
 *
 * Hadoop creates objects conditionally from 3.4.2 on. Here the request is Hadoop's own, with its encryption and
 * headers, sent by Hadoop's own client, and one header more: the server itself refuses the second of two writers.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {

    private static final int PRECONDITION_FAILED = 412;
    private static final int CONFLICT = 409;
    private static final int ATTEMPTS = 5;

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        ByteArrayOutputStream entry = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            entry.write(((String) actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        S3AFileSystem system = (S3AFileSystem) path.getFileSystem(configuration);
        if (overwrite) {
            FSDataOutputStream replaced = system.create(path, true);
            replaced.write(entry.toByteArray());
            replaced.close();
            return;
        }
        StoreContext store = system.createStoreContext();
        PutObjectRequest.Builder request = store.getRequestFactory().newPutObjectRequestBuilder(
            store.pathToKey(path), PutObjectOptions.keepingDirs(), entry.size(), false);
        AwsRequestOverrideConfiguration.Builder headers = AwsRequestOverrideConfiguration.builder();
        headers.putHeader("If-None-Match", "*");
        request.overrideConfiguration((AwsRequestOverrideConfiguration) headers.build());
        S3Client client = system.getS3AInternals().getAmazonS3Client("a log entry that replaces none");
        PutObjectRequest built = (PutObjectRequest) request.build();
        for (int attempt = 1; true; attempt++) {
            try {
                client.putObject(built, RequestBody.fromBytes(entry.toByteArray()));
                return;
            } catch (S3Exception refused) {
                if (refused.statusCode() == PRECONDITION_FAILED) {
                    throw new FileAlreadyExistsException(path.toString());
                }
                // Two requests at the same moment: S3 asks one of them to repeat, and then knows who was first.
                if (refused.statusCode() != CONFLICT || attempt == ATTEMPTS) {
                    throw new IOException(path + ": " + refused.getMessage(), refused);
                }
            }
        }
    }
}
