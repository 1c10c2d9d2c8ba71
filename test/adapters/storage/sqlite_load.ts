/**
 * Sells on a SQLite database until its input ends: opens, claims and settles calls. Each payment is first written to
 * the chain, a file; each settled call is then told on standard output.
 */
import { appendFileSync } from 'node:fs'
import { holdAlone, sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { newCall, signed } from '../../conformance/storage_questions.ts'

const [path = '', chain = '', prefix = ''] = process.argv.slice(2)
const hold = holdAlone(path)
if (!hold) throw new Error('the database is in use')
const storage = sqliteStorage(path)
let isOver = false
process.stdin.on('end', () => (isOver = true)).resume()

async function sell(seller: number): Promise<void> {
  for (let n = 0; !isOver; n++) {
    const [id, key] = [`${prefix}-call-${seller}-${n}`, `${prefix}-key-${seller}-${n}`]
    const now = Date.now()
    await storage.openCall(newCall(id, { createdAt: now }), signed(key), { now, until: now + 60_000 })
    const result = { result: { made: 'x'.repeat(500) }, expiresAt: now + 86_400_000 }
    const claim = await storage.claimSettlement(id, undefined, { now, until: now + 60_000, result })
    if (!('token' in claim)) throw new Error(claim.kind)
    const receipt = { transaction: `0x${id}`, network: 'eip155:84532', payer: '0xpayer', amount: '22000' }
    appendFileSync(chain, `${id}\n`)
    await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now })
    process.stdout.write(`${id}\n`)
  }
}

await Promise.all(Array.from({ length: 16 }, (_, seller) => sell(seller)))
await storage.close()
hold.release()
