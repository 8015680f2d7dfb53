// prozess 0.7.0: HOST PORT write|read TOPIC COUNT. It writes magic 1, and counts ten bytes before each value it reads.
require('./bignum.js');
const { Consumer, Producer } = require('prozess');
const [host, port, action, topic, count] = process.argv.slice(2);
const options = { host, port: Number(port) };

if (action === 'write') {
  const producer = new Producer(topic, options);
  producer.connect();
  producer.on('error', (error) => { throw error; });
  producer.on('connect', () => {
    producer.send(Array.from({ length: Number(count) }, (_, i) => `v${i}`), (error) => {
      if (error) throw error;
      producer.connection._connection.end(() => console.log('{}'));
    });
  });
} else {
  const consumer = new Consumer({ ...options, topic });
  const read = [];
  let first, at;
  const more = (error, messages) => {
    if (error) throw error;
    for (const message of messages) {
      read.push([at, message.payload.toString()]);
      at += message.payload.length + 10;
    }
    if (read.length < Number(count)) return setTimeout(() => consumer.consume(more), 100);
    consumer.getLatestOffset((_, last) => {
      console.log(JSON.stringify({ first, read, last: Number(last.toString()) }));
      process.exit(0);
    });
  };
  consumer.connect((error) => {
    if (error) throw error;
    consumer.getEarliestOffset((_, earliest) => {
      first = at = Number(earliest.toString());
      consumer.setOffset(earliest);
      consumer.consume(more);
    });
  });
}
