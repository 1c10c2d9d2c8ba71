/** Keccak-256: by WebAssembly where the optional package is installed and runs, portably elsewhere. */
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex } from '@noble/hashes/utils'

export type Keccak = (bytes: Uint8Array) => Uint8Array

/** 7 us for two words, portably; 0.7 by WebAssembly. A payment takes two to four of them. */
export const portableKeccak: Keccak = (bytes) => keccak_256(bytes)

/** Undefined where it does not load, or does not hash as the portable one does. */
export async function wasmKeccak(): Promise<Keccak | undefined> {
  try {
    const { createKeccak } = await import('hash-wasm/dist/keccak.umd.min.js')
    const hasher = await createKeccak(256)
    const hash: Keccak = (bytes) => hasher.init().update(bytes).digest('binary')
    return PROBES.every((probe) => isEqual(hash(probe), portableKeccak(probe))) ? hash : undefined
  } catch {
    return undefined // runtimes that compile no WebAssembly from bytes, and installations without the package
  }
}

/** On both sides of a block of 136 bytes. */
const PROBES = [0, 1, 66, 135, 136, 137, 300].map((length) => new Uint8Array(length).fill(length))
const isEqual = (one: Uint8Array, other: Uint8Array) => bytesToHex(one) === bytesToHex(other)

let loading: Promise<void> | undefined
let hash = portableKeccak

/** Portable until the first call has loaded the other one. */
export const keccak: Keccak = (bytes) => {
  loading ??= wasmKeccak().then((fast) => void (hash = fast ?? hash))
  return hash(bytes)
}
