/** The door to the adapters that run on Bun, Deno and Node alike: what the package brings beside core. */
export { type CashChain, type CashOptions, type CashSigning, type CashTransfer, cashChain, type Weather } from './chains/cash.ts'
export { type EvmChain, type EvmConfig, evmChain } from './chains/evm.ts'
export { consoleLog, type LocalPorts, localPorts, randomBytes, systemClock } from './machine.ts'
export { nodeListener } from './node_http.ts'
export { memoryObjects } from './objects/memory.ts'
export { memoryStorage } from './storage/memory.ts'
export { type FetchMedia, type HttpOptions, mediaFetcher } from './vendors/http.ts'
export { type Script, type ScriptedVendor, scriptedVendor } from './vendors/scripted.ts'
