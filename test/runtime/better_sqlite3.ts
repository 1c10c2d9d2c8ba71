import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { folderOf } from './runtimes.ts'

/**
 * Compiles better-sqlite3, once: its own download is not part of the installation. The full tests run this file before
 * any test, because two workers that compile in one folder delete each other's files.
 */
export async function compileBetterSqlite(): Promise<void> {
  const home = folderOf('better-sqlite3')
  if (existsSync(join(home, 'build/Release/better_sqlite3.node'))) return
  const child = Bun.spawn(['npm', 'run', 'build-release'], {
    cwd: home,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [output, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`better-sqlite3 does not compile:\n${output}${errors}`)
}

if (import.meta.main) await compileBetterSqlite()
