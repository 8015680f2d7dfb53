// franz-kafka 0.7.5: HOST PORT write|write-gzip|read TOPIC COUNT. It writes magic 1, plain or as one message in gzip, and reads both.
const Kafka = require('franz-kafka');
const [host, port, action, topic, count] = process.argv.slice(2);
const kafka = new Kafka({
  brokers: [{ id: 0, host, port: Number(port) }],
  compression: action === 'write-gzip' ? 'gzip' : 'none',
  queueTime: 50,
  batchSize: Number(count),
});

kafka.connect(() => {
  const partitions = action === 'read' ? { consume: ['0-0:0'] } : { produce: ['0:1'] };
  const stream = kafka.topic(topic, { partitions, maxFetchSize: 300 });
  stream.on('error', (error) => { throw error; });
  if (action === 'read') {
    const read = [];
    stream.on('data', (value) => {
      read.push([null, value.toString()]);
      if (read.length === Number(count)) {
        console.log(JSON.stringify({ read }));
        process.exit(0);
      }
    });
    stream.resume();
  } else {
    for (let i = 0; i < Number(count); i++) stream.write(`v${i}`);
    setTimeout(() => {
      kafka.broker(0).client.connection.end(() => {
        console.log('{}');
        process.exit(0);
      });
    }, 1000);
  }
});
