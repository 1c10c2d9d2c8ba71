/** Asks everything that a configuration names, before anything is sold: chains, storage, object store and vendors. */
import { chainManifest } from '../../adapters/chains/manifests.ts'
import { checkKey } from '../../adapters/http/key_check.ts'
import { systemClock } from '../../adapters/local.ts'
import type { ModelKind } from '../../adapters/providers/manifest.ts'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { unwritable } from '../../adapters/storage/unwritable.ts'
import type { Config } from '../config/mod.ts'
import type { PaymentMethod } from '../config/payment_methods.ts'
import { protocolOf } from '../config/providers.ts'
import { isFile } from '../config/settings.ts'
import { chainOf, payingAccounts } from './chains.ts'
import { objectsOf } from './mod.ts'

/** Result of checking one part. `note`: it could not be checked, and nothing is known to be wrong. */
export type Finding = {
  readonly level: 'ok' | 'note' | 'warning' | 'wrong'
  /** The setting or the part, such as `gateways.base` or `object_store`. */
  readonly subject: string
  readonly message: string
}

/** Seconds between two clocks that are worth a warning, and that stop sales. */
const SKEW = { warning: 1, wrong: 5 } as const
/** A block of Base takes 2 s, one of Ethereum 12 s. An older one means a node behind, or a clock ahead. */
const MAX_BLOCK_AGE_S = 60
const TIMEOUT_MS = 10_000

/** Asks all at once. Rejects for nothing that an operator can fix. Writes one small object, and deletes it. */
export async function checkOnline(config: Config, { now = systemClock.now } = {}): Promise<readonly Finding[]> {
  const methods = config.gateways.flatMap(({ name, paymentMethods }) =>
    paymentMethods.map((method) => ({ subject: `gateways.${name}`, method })),
  )
  const parts = await Promise.all([
    ...(methods.length === 0
      ? [[finding('note', 'gateways', 'there is no gateway: farebox start runs a devnet with test money')]]
      : methods.map(({ subject, method }) => checkChain(subject, method, now))),
    checkDatabase(config.database, now),
    checkObjects(config.objects),
    checkVendors(config),
  ])
  return parts.flat()
}

const finding = (level: Finding['level'], subject: string, message: string): Finding => ({ level, subject, message })

async function checkChain(subject: string, method: PaymentMethod, now: () => number): Promise<readonly Finding[]> {
  const network = method.kind === 'batched' ? method.url : method.network
  const undo: (() => unknown)[] = []
  const log = { info() {}, warn() {}, alert() {}, access() {}, flush() {} }
  const chaining = { log, clock: systemClock, undo, timed: undefined as never, isDevnet: false }
  try {
    const storage = memoryStorage()
    // A lease in a storage of its own: no replica is disturbed.
    const chain = await chainOf(subject, method, { ...chaining, storage, workerId: 'check', leaseMs: TIMEOUT_MS })
    undo.push(() => chain.close())
    const result = await chain.check({ now: now() })
    if (result.kind === 'unavailable')
      return [finding('wrong', subject, `${network} cannot be checked: ${result.reason}`)]
    if (result.kind === 'wrong') return result.problems.map((problem) => finding('wrong', subject, problem))
    return [
      finding('ok', subject, `${network} answers, and the token and pay_to are as configured`),
      ...(await accountFindings(subject, method)),
      ...(await blockFindings(subject, method, now)),
    ]
  } catch (error) {
    return [finding('wrong', subject, (error as Error).message)]
  } finally {
    for (const step of undo.reverse()) await step()
  }
}

async function accountFindings(subject: string, method: PaymentMethod): Promise<readonly Finding[]> {
  const accounts = await payingAccounts(method)
  return accounts.map(({ role, address, balance, unit, problem }) =>
    problem === undefined
      ? finding('ok', subject, `${role} ${address} holds ${balance} ${unit}`)
      : finding('wrong', subject, `${role}: ${problem}`),
  )
}

/** Compares the clock with the latest block: authorizations are judged by the time of blocks. */
async function blockFindings(subject: string, method: PaymentMethod, now: () => number): Promise<readonly Finding[]> {
  const { blockTime } = chainManifest(method)
  if (!blockTime) return []
  const seconds = await blockTime(method, { timeoutMs: TIMEOUT_MS })
  if (seconds === undefined) return [finding('note', subject, 'the time of the latest block cannot be read')]
  const age = Math.round(now() / 1000 - seconds)
  if (age < -SKEW.wrong) return [finding('wrong', subject, `this clock is ${-age} s behind the latest block: set it`)]
  if (age > MAX_BLOCK_AGE_S)
    return [finding('warning', subject, `the latest block is ${age} s old: the node lags, or this clock is ahead`)]
  return [finding('ok', subject, `this clock and the latest block are ${Math.abs(age)} s apart`)]
}

async function checkDatabase(url: string, now: () => number): Promise<readonly Finding[]> {
  const { level, message } = await storageManifest(url).check(url, now)
  return [finding(level, 'database_url', message)]
}

/** Writes, reads and deletes one object. */
async function checkObjects(objects: Config['objects']): Promise<readonly Finding[]> {
  const subject = 'object_store'
  if (objects.kind === 'memory') return [finding('warning', subject, 'memory: forgets media when the process ends')]
  if (objects.kind === 'file') {
    const problem = await unwritable(objects.dir)
    return [problem ? finding('wrong', subject, problem) : finding('ok', subject, `${objects.dir} can be written`)]
  }
  const key = `check/${crypto.randomUUID()}`
  let step = 'opened'
  try {
    const store = objectsOf(objects)
    step = 'written to'
    await store.put(key, new Uint8Array([7]), 'application/octet-stream')
    step = 'read'
    const found = await store.get(key)
    if (found?.body instanceof ReadableStream) await found.body.cancel()
    if (!found) return [finding('wrong', subject, 'an object that was written cannot be read')]
    step = 'deleted from'
    await store.delete(key)
    return [finding('ok', subject, 'an object was written, read and deleted')]
  } catch (error) {
    return [finding('wrong', subject, `the bucket cannot be ${step}: ${(error as Error).message}`)]
  }
}

type Account = { readonly protocol: string; readonly baseUrl: string | undefined; readonly key: string | undefined }

/** Asks each vendor of models for a free list with its key. */
async function checkVendors({ images, chat, videos }: Config): Promise<readonly Finding[]> {
  const accounts = new Map<string, { kind: ModelKind; account: Account; vendor: string }>()
  for (const [kind, { rows, servings }] of [
    ['chat', chat],
    ['images', images],
    ['videos', videos],
  ] as const)
    for (const { id, vendor } of rows as readonly { id: string; vendor: string }[]) {
      const account = (servings as ReadonlyMap<string, Account>).get(id)
      if (!account?.key || isFile(account.protocol)) continue
      const name = `${vendor} ${account.key}`
      const known = accounts.get(name)
      if (!known || !protocolOf(known.kind, known.account.protocol).keyCheck)
        accounts.set(name, { kind, account, vendor })
    }
  return await Promise.all([...accounts.values()].map(checkVendor))
}

async function checkVendor({
  kind,
  account: { protocol, baseUrl, key = '' },
  vendor,
}: {
  readonly kind: ModelKind
  readonly account: Account
  readonly vendor: string
}): Promise<Finding> {
  const subject = `vendors.${vendor}`
  const { keyCheck, baseUrl: own } = protocolOf(kind, protocol)
  if (!keyCheck) return finding('note', subject, 'its key is set; it has no free request to check it with')
  const url = (baseUrl ?? own).replace(/\/$/, '') + keyCheck.path
  const verdict = await checkKey(url, { headers: keyCheck.headers(key), timeoutMs: TIMEOUT_MS })
  if (verdict.kind === 'accepted') return finding('ok', subject, 'accepts its key')
  if (verdict.kind === 'refused') return finding('wrong', subject, `refuses its key (status ${verdict.status})`)
  return finding('warning', subject, `its key cannot be checked: ${verdict.reason}`)
}
