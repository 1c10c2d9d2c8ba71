/** Opens the storage of a URL as a gateway does, writes with every verb, says so, and waits to be killed. */
import { openStorage } from '../../adapters/open.ts'
import { writeAll } from './durable_writes.ts'

await writeAll(await openStorage(String(Bun.argv[2])))
console.log('written')
setInterval(() => {}, 60_000)
