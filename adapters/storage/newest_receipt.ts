import { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import type { Receipt } from '../../core/mod.ts'

/**
 * The newest EVM receipt in a SQLite database that no process uses. Undefined when there is none, or no database yet.
 */
export function newestReceipt(path: string): Receipt | undefined {
  if (!existsSync(path)) return undefined
  const database = new Database(path)
  try {
    const row = database
      .query(
        "SELECT receipt FROM calls WHERE payment_status = 'settled' AND json_extract(receipt, '$.transaction') LIKE '0x%' ORDER BY settled_at DESC LIMIT 1",
      )
      .get()
    return row ? (JSON.parse((row as { receipt: string }).receipt) as Receipt) : undefined
  } catch (error) {
    if (/no such table/.test((error as Error).message)) return undefined
    throw error
  } finally {
    database.close()
  }
}
