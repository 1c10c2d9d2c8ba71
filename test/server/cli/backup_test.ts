/** `farebox backup` and `farebox restore`, as an operator calls them. */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { runFarebox } from '../../../server/cli/mod.ts'

function world(database: (at: (name: string) => string) => string) {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-cli-'))
  const at = (name: string) => join(dir, name)
  const env = { DATABASE_URL: database(at), OBJECT_STORE: `file:${at('media')}` }
  async function call(...args: string[]) {
    const [out, err]: [string[], string[]] = [[], []]
    const status = await runFarebox(args, {
      env,
      out: (line) => out.push(line),
      err: (line) => err.push(line),
      hasColor: false,
      serve: async () => {},
    })
    return { status, out: out.join('\n'), err: err.join('\n') }
  }
  return { at, call, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

test('a backup with media and its restore: the database first, then the media, and the word to reconcile', async () => {
  const { at, call, remove } = world((at) => `sqlite:${at('farebox.db')}`)
  await sqliteStorage(at('farebox.db')).close()
  mkdirSync(at('media/images'), { recursive: true })
  mkdirSync(at('media/.incoming'), { recursive: true })
  writeFileSync(at('media/images/a.png@'), 'image/png\npicture')
  writeFileSync(at('media/.incoming/7-0'), 'half')
  const made = await call('backup', at('copy.db'), '--media')
  expect(made).toMatchObject({ status: 0, err: '' })
  expect(made.out).toContain('0 calls (0 paid); schema')
  expect(readdirSync(at('copy.db.media'))).toEqual(['images'])

  expect(await call('restore', at('copy.db'))).toMatchObject({ status: 1, out: '' })
  rmSync(at('media'), { recursive: true })
  const restored = await call('restore', at('copy.db'), '--force')
  expect(restored.status).toBe(0)
  expect(restored.out).toContain('Run farebox reconcile before you sell')
  expect(existsSync(at('media/images/a.png@'))).toBe(true)
  expect(readdirSync(at('.')).filter((name) => name.startsWith('farebox.db.before-restore-'))).toHaveLength(1)
  remove()
})

test('on Postgres backup says what to use, with the commands and without the password', async () => {
  const { at, call, remove } = world(() => 'postgres://farebox:secret@db.example/farebox')
  const made = await call('backup', at('copy.dump'))
  expect(made.status).toBe(1)
  expect(made.err).toContain(`pg_dump --format=custom --file="${at('copy.dump')}"`)
  expect(made.err).toContain('pg_basebackup')
  expect(made.err).not.toContain('secret')
  expect((await call('restore', at('copy.dump'))).status).toBe(1)
  remove()
})

test('wrong arguments end with status 2 and the way to the help', async () => {
  const { at, call, remove } = world((at) => `sqlite:${at('farebox.db')}`)
  const wrong = [[], [at('a'), at('b')], [at('a'), '--everything']]
  for (const verb of ['backup', 'restore'])
    for (const args of wrong) {
      const { status, err } = await call(verb, ...args)
      expect({ args, status, err }).toMatchObject({ args, status: 2 })
      expect(err).toContain(`Run farebox ${verb} --help`)
    }
  remove()
})
