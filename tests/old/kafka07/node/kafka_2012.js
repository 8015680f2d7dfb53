// The package `kafka` 0.2.3: HOST PORT write|read TOPIC COUNT. It writes and understands magic 0 alone, and its requests can name
// offsets below 65536 only.
const kafka = require('kafka');
const [host, port, action, topic, count] = process.argv.slice(2);
const options = { host, port: Number(port) };

if (action === 'write') {
  const producer = new kafka.Producer({ ...options, topic });
  producer.connect(() => {
    producer.send(Array.from({ length: Number(count) }, (_, i) => `v${i}`));
    producer._connection.end(() => console.log('{}'));
  });
} else {
  const read = [];
  let at = 0;
  const consumer = new kafka.Consumer({ ...options, pollInterval: 100 });
  consumer.on('message', (_, value, next) => {
    read.push([at, value]);
    at = next;
    if (read.length === Number(count)) {
      console.log(JSON.stringify({ first: 0, read, last: next }));
      process.exit(0);
    }
  });
  consumer.connect(() => consumer.subscribeTopic(topic));
}
