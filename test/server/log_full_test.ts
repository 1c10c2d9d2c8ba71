/** Lines of the server's log, as a process writes them. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { keyText } from '../../core/x402/mod.ts'

const LOG = join(import.meta.dirname, '../../server/log.ts')

test('no field of a line has the text of an API key, however deep, and what stands around it stays', async () => {
  const key = keyText(new Uint8Array(32).fill(7), 'test')
  const fields = {
    error: `401 for ${key} at vendor`,
    details: { body: [`{"api_key":"${key}"}`] },
    stack: new Error(`bad ${key}`).stack,
    [key]: 1,
  }
  const program = `
    const { serverLog } = await import(${JSON.stringify(LOG)})
    const log = serverLog('info')
    const fields = ${JSON.stringify(fields)}
    for (const level of ['info', 'warn', 'alert']) log[level]('a vendor refused ' + ${JSON.stringify(key)}, fields)
    log.access({ id: 'a', method: 'GET', path: '/api/' + ${JSON.stringify(key)}, status: 200, ms: 1, ip: '::1' })
    log.flush()
  `
  const { stdout, stderr } = Bun.spawnSync([process.execPath, '-e', program])
  const written = stdout.toString() + stderr.toString()
  expect(written.includes(key)).toBe(false)
  const lines = stdout
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines).toHaveLength(4)
  expect(lines[0]).toMatchObject({
    msg: 'a vendor refused sk-fbx-...',
    error: '401 for sk-fbx-... at vendor',
    details: { body: ['{"api_key":"sk-fbx-..."}'] },
  })
})
