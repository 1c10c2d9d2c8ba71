/** The laws of storages and object stores in a Worker, each in a Durable Object of its own. */
import type { DurableObjectStorage } from '../../adapters/storage/sqlite/durable_object.ts'
import { durableObjectLedger, durableObjectMedia } from '../../adapters/workers.ts'
import type { Law } from '../conformance/law.ts'
import { objectLaws } from '../conformance/objects.ts'
import { storageLaws } from '../conformance/storage.ts'

/** The Worker around `checkLaw`, as a module of the runtime. */
export const LAW_WORKER = [
  `import * as workers from 'cloudflare:workers'`,
  `import { checkLaw } from '${import.meta.filename}'`,
  'export class Farebox extends workers.DurableObject {',
  '  fetch = async ({ url }) => new Response(await checkLaw(new URL(url).pathname, this.ctx.storage))',
  '}',
  'const fetch = (request, { FAREBOX }) => FAREBOX.getByName(new URL(request.url).pathname).fetch(request)',
  'export default { fetch }',
].join('\n')

/** `/storage/3` is the fourth law of storages. Resolves with `kept`, or with what broke it. */
export async function checkLaw(path: string, storage: DurableObjectStorage): Promise<string> {
  const [, suite, number] = path.split('/')
  if (suite === 'objects') return await check(objectLaws[Number(number)], () => durableObjectMedia(storage))
  // One object opens its ledger once.
  const ledger = durableObjectLedger(storage)
  return await check(storageLaws[Number(number)], () => ledger)
}

async function check<T>(law: Law<T> | undefined, open: () => T): Promise<string> {
  if (!law) return 'there is no such law'
  try {
    await law.check({ open: async () => open(), close: async () => {} })
    return 'kept'
  } catch (error) {
    return (error as Error).message
  }
}
