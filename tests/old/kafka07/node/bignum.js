// Stands in for the package `bignum`, which is C++ for a Node of 2013: as much of it as prozess uses, over BigInt.
const Module = require('module');

class Big {
  constructor(value) {
    this.value = BigInt(value instanceof Big ? value.value : value);
  }
  add(other) {
    return new Big(this.value + bignum(other).value);
  }
  eq(other) {
    return this.value === bignum(other).value;
  }
  toBuffer() {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64BE(this.value);
    return bytes;
  }
  toString() {
    return this.value.toString();
  }
}

function bignum(value) {
  return new Big(value);
}
bignum.fromBuffer = (bytes) => new Big(bytes.readBigUInt64BE());

const load = Module._load;
Module._load = (name, ...others) => (name === 'bignum' ? bignum : load(name, ...others));
