// A member of a group in ZooKeeper by kafka-node 2.6: ZOOKEEPER GROUP TOPIC. Prints partition, offset and value of each record.
const kafka = require('kafka-node');
const [zookeeper, group, topic] = process.argv.slice(2);
const client = new kafka.Client(zookeeper, `${group}-${process.pid}`, { sessionTimeout: 4000 });
const consumer = new kafka.HighLevelConsumer(client, [{ topic }], {
  groupId: group, autoCommitIntervalMs: 300, fetchMaxWaitMs: 100, rebalanceRetry: { retries: 60, minTimeout: 300, maxTimeout: 1000 },
});
consumer.on('message', (record) => console.log(`${record.partition}\t${record.offset}\t${record.value}`));
consumer.on('error', (error) => console.error(String(error)));
