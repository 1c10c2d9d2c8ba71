/** Secrets from files: NAME_FILE. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../../../server/config/mod.ts'
import { secretsFromFiles } from '../../../server/config/settings.ts'

const files: Readonly<Record<string, string>> = {
  '/run/token': 'a-token-of-some-length\n',
  '/run/empty': '\n',
  '/run/long': 'x'.repeat(65_537),
}

function read(path: string): string {
  const text = files[path]
  if (text === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
  return text
}

const from = (env: Record<string, string>) => secretsFromFiles(env, ['OPERATOR_TOKEN', 'DATABASE_URL'], read)

test('a secret is read from the file that its variable names, without the line break at the end', () => {
  expect(from({ OPERATOR_TOKEN_FILE: '/run/token', PORT: '1' })).toEqual({
    env: { OPERATOR_TOKEN_FILE: '/run/token', OPERATOR_TOKEN: 'a-token-of-some-length', PORT: '1' },
    mistakes: [],
  })
  expect(from({ DATABASE_URL_FILE: '/run/token' }).env.DATABASE_URL).toBe('a-token-of-some-length')
  expect(from({ MY_VENDOR_KEY_FILE: '/run/token' }).env.MY_VENDOR_KEY).toBe('a-token-of-some-length')
})

test('files of other programs are left alone', () => {
  const env = { SSL_CERT_FILE: '/run/token', AWS_WEB_IDENTITY_TOKEN_FILE: '/none', HISTFILE: '/none' }
  expect(from(env)).toEqual({ env, mistakes: [] })
})

test('what is no file, such as a pipe, is refused and not waited for', () => {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-secrets-'))
  const pipe = join(dir, 'pipe')
  expect(Bun.spawnSync(['mkfifo', pipe]).exitCode).toBe(0)
  const refused = readConfig({ OPERATOR_TOKEN_FILE: pipe })
  expect(!refused.ok && refused.mistakes).toEqual([
    `OPERATOR_TOKEN_FILE: the file at ${pipe} cannot be read (it is no file)`,
  ])
  rmSync(dir, { recursive: true })
})

test('a mistake names the variable and the file, and shows no contents', () => {
  expect(from({ OPERATOR_TOKEN_FILE: '/none' }).mistakes).toEqual([
    'OPERATOR_TOKEN_FILE: the file at /none cannot be read (ENOENT)',
  ])
  expect(from({ OPERATOR_TOKEN_FILE: '/run/empty' }).mistakes).toEqual([
    'OPERATOR_TOKEN_FILE: the file at /run/empty is empty',
  ])
  expect(from({ OPERATOR_TOKEN_FILE: '/run/long' }).mistakes).toEqual([
    'OPERATOR_TOKEN_FILE: the file at /run/long has more than 65536 characters',
  ])
  expect(from({ OPERATOR_TOKEN_FILE: '/run/token', OPERATOR_TOKEN: 'another' }).mistakes).toEqual([
    'OPERATOR_TOKEN_FILE: OPERATOR_TOKEN is set as well; set one of them',
  ])
})
