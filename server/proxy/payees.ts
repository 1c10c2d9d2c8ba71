/** The payees that a person has agreed to, by seller. Asked once, kept in a file that only its owner can read. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isFields } from '../../core/lib/mod.ts'

type Payee = { readonly seller: string; readonly network: string; readonly payTo: string }

export type Payees = { isAllowed(payee: Payee): Promise<boolean> }

type PayeeOptions = {
  /** File of the agreed payees. */
  readonly path: string
  /** Addresses that alone are allowed; nobody is asked then. */
  readonly only: readonly string[] | undefined
  /** Asks a person; absent where nobody can answer. */
  readonly ask: ((question: string) => Promise<string>) | undefined
}

export function payeeList({ path, only, ask }: PayeeOptions): Payees {
  const open = new Map<string, Promise<boolean>>()
  let last: Promise<unknown> = Promise.resolve()

  async function askFor({ seller, network, payTo }: Payee, name: string): Promise<boolean> {
    if (!ask) return false
    const answer = await ask(`${printable(seller)} is paid at ${payTo} on ${network}. Pay this address? [y/N] `)
    const isAgreed = /^y(es)?$/i.test(answer)
    if (isAgreed) write(path, [...read(path), name])
    return isAgreed
  }

  return {
    async isAllowed(payee) {
      if (only) return only.some((address) => sameAddress(address, payee.payTo))
      const name = nameOf(payee)
      if (read(path).includes(name)) return true
      // Parallel calls ask one question, and one question at a time.
      const question = open.get(name) ?? last.then(() => askFor(payee, name))
      last = question.catch(() => {})
      open.set(name, question)
      return await question.finally(() => open.delete(name))
    },
  }
}

const sameAddress = (a: string, b: string): boolean =>
  a.startsWith('0x') ? a.toLowerCase() === b.toLowerCase() : a === b

const nameOf = ({ seller, network, payTo }: Payee): string =>
  [seller, network, payTo.startsWith('0x') ? payTo.toLowerCase() : payTo].join(' ')

/** Text of a stranger without control characters, which could rewrite a terminal. */
export const printable = (text: string): string => text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 200)

function read(path: string): readonly string[] {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return isFields(value) && Array.isArray(value.payees) ? value.payees.map(String) : []
  } catch {
    return []
  }
}

function write(path: string, payees: readonly string[]): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(`${path}.new`, `${JSON.stringify({ payees }, null, 2)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}
