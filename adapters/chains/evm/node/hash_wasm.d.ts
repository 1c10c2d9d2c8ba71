/** The part of the package that is used: one algorithm of it, in a file of 11 KB. */
declare module 'hash-wasm/dist/keccak.umd.min.js' {
  type Hasher = {
    init(): Hasher
    update(bytes: Uint8Array): Hasher
    digest(type: 'binary'): Uint8Array
  }
  export function createKeccak(bits: 256): Promise<Hasher>
}
