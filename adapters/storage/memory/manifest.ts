import type { StorageManifest } from '../manifest.ts'

export const memoryManifest: StorageManifest = {
  name: 'memory',
  schemes: ['memory:'],
  pattern: 'memory:',
  usage: 'memory:',
  isShared: false,
  hold: () => ({ release() {} }),
  capabilities: { isDurable: false, hasBackups: false, hasDevnet: true },
  open: async () => (await import('./mod.ts')).memoryStorage(),
  openLedger: () => no('The database is in memory, so only the running gateway can read it: use --url.'),
  backup: () => no('The database is memory: there is nothing to back up.'),
  restore: () => no('restore is for a database that outlives the process, and this one is memory.'),
  describe: () => 'memory: everything is lost with the process',
  check: async () => ({
    level: 'warning',
    message: 'memory: forgets calls and payments when the process ends',
  }),
}

const no = (words: string) => Promise.reject(new Error(words))
