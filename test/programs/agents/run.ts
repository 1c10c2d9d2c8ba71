/**
 * `bun test/programs/agents/run.ts [NAME...]`: buys with every SDK and agent of the room, through `farebox proxy` and
 * with a key, and prints a table. Installs what is missing, 1.1 GB of native programs among it; the suite runs only
 * those that are not native.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AGENTS } from './agents.ts'
import { SDKS } from './sdks.ts'
import { check, faults, reasonIn, WAYS } from './check.ts'
import { openRoom } from './room.ts'

const given = process.argv.slice(2)
const isChosen = ({ name }: { readonly name: string }) => given.length === 0 || given.includes(name)
const agents = AGENTS.filter(isChosen)
const chosen = [...SDKS.filter(isChosen), ...agents]
if (chosen.length === 0) {
  console.error(`There are ${[...SDKS, ...AGENTS].map(({ name }) => name).join(', ')}.`)
  process.exit(2)
}
const folders = agents.map(({ room }) => (room === 'native' ? 'native' : '.'))
for (const folder of new Set(['..', ...folders])) {
  const cwd = join(import.meta.dirname, folder)
  if (existsSync(join(cwd, 'node_modules'))) continue
  const child = Bun.spawnSync([process.execPath, 'install', '--frozen-lockfile'], {
    cwd,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (child.exitCode !== 0) process.exit(1)
}

const wrong: string[] = []
console.log(
  '| Client | Way | Answer: s, charges | Tool loop: s, charges | Nothing to pay from: code, s, orders | Shown |',
)
console.log('|---|---|---|---|---|---|')
for (const client of chosen) {
  // Gas for the keys of one wallet is limited, so each client has a devnet of its own.
  const room = await openRoom()
  try {
    for (const way of WAYS) {
      const checked = await check(room, client, way)
      const { answer, loop, empty } = checked
      const seconds = ({ ms }: { readonly ms: number }) => (ms / 1000).toFixed(1)
      const cells = [
        client.name,
        way,
        `${seconds(answer)}, ${answer.charges}`,
        `${seconds(loop)}, ${loop.charges}`,
        `${empty.code}, ${seconds(empty)}, ${empty.orders.map(({ status }) => status).join(' ')}`,
        reasonIn(empty),
      ]
      console.log(`| ${cells.join(' | ')} |`)
      const found = faults(client, checked)
      wrong.push(...found.map((each) => `${each} (${way})`))
      if (found.length > 0 && process.env.VERBOSE) console.log(JSON.stringify(checked, null, 1))
    }
  } finally {
    await room.close()
  }
}
for (const each of wrong) console.log(`WRONG ${each}`)
process.exit(wrong.length === 0 ? 0 : 1)
