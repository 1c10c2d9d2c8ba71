/** Manifest of a kind of storage, for use before one is opened. Importing it loads no database library. */
import type { LedgerReads, Storage } from '../../core/ports/mod.ts'

/** A storage that tells why it is used no longer. */
export type OpenedStorage = Storage & {
  /** Why nothing is written or read any more; undefined while all is well. Every verb rejects then. */
  failure?(): string | undefined
  /** Why this process can use the database no longer, since a newer version has upgraded it. */
  refusal?(): string | undefined
}

/** Contents of a database. */
export type Contents = {
  /** The steps of its schema. */
  readonly migrations: number
  readonly calls: number
  readonly settled: number
  /** Calls whose settlement has begun and has no known end: the chain has to be asked. */
  readonly unsettled: number
  /** When its newest call was settled or opened, in milliseconds since 1970; null where there is none. */
  readonly newestAt: number | null
}

export type Restored = Contents & {
  /** Where the database that was there before is now; undefined where there was none. */
  readonly before: string | undefined
}

/** Result of a check. */
type Checked = { readonly level: 'ok' | 'warning' | 'wrong'; readonly message: string }

/** Facts in a ledger that identify the chain that it was written on. */
export type LedgerOrigin = {
  readonly gateways: readonly string[]
  /** The transaction of its newest payment on an EVM chain; undefined where there is none. */
  readonly newestTransaction: string | undefined
}

/** How a ledger in a file serves a devnet: with a mark of its own, so that no other ledger is taken for one. */
export type DevnetLedgers = {
  /**
   * Creates and marks the file if there is none, or one without tables. Throws, and changes nothing, when it has tables
   * and no mark.
   */
  claim(path: string): void
  /** Marks a copy of a devnet's ledger from before there was a mark. */
  mark(path: string): void
  /** Whether the file is there and is the ledger of a devnet. */
  isMarked(path: string): boolean
  /** Undefined when there is no file, or one without calls. The file must not be in use. */
  originOf(path: string): LedgerOrigin | undefined
  /** Moves a database that no process uses to another name. Throws when that name is taken. */
  moveAside(path: string, aside: string): void
}

export type StorageManifest = Facts & Sharing

type Facts = {
  /** As messages name it. */
  readonly name: string
  /** Schemes of its URLs. */
  readonly schemes: readonly string[]
  /** Its URLs, as a regular expression and as an operator reads them. */
  readonly pattern: string
  readonly usage: string
  readonly capabilities: {
    /** Whether it outlives the process. */
    readonly isDurable: boolean
    /** Whether `backup` and `restore` do it, and not a tool of the database. */
    readonly hasBackups: boolean
    /** The tool of the database that makes backups where they do not; their error names it. */
    readonly backupTool?: string
    /** Whether a devnet may keep its ledger in it. */
    readonly hasDevnet: boolean
  }
  /** The file that it is, on this machine. Throws for a URL without one. */
  readonly pathOf?: (url: string) => string
  /** Opens it and waits until it answers. A file of at most `checkUpTo` bytes is checked first. */
  open(url: string, options?: { readonly checkUpTo?: number }): Promise<OpenedStorage>
  /** Opens the ledger to read it beside a running gateway. Rejects where there is none to read. */
  openLedger(url: string): Promise<LedgerReads & { close(): Promise<void> }>
  /** Writes a consistent copy of the database to a file. Rejects, in words for the operator, when it cannot. */
  backup(url: string, file: string): Promise<Contents>
  /** Puts a backup in the place of the database; what is there is moved to `aside`, where that is given. */
  restore(file: string, url: string, aside?: string): Promise<Restored>
  /** The URL in words, without its secrets. */
  describe(url: string): string
  /** Whether it can be used, without changing it. `now` is the clock of this process. */
  check(url: string, now: () => number): Promise<Checked>
  readonly devnetLedgers?: () => Promise<DevnetLedgers>
}

/** Whether several processes may use one database at the same time. Otherwise one has to keep the others off. */
type Sharing =
  | { readonly isShared: true; readonly hold?: undefined }
  | {
      /** Its calls end with the process. */
      readonly isShared: false
      /**
       * Keeps other processes off the database until it is released or the process ends. Undefined when another process
       * has it. Of a storage that no other process can reach: `() => ({ release() {} })`.
       */
      readonly hold: (url: string) => { release(): void } | undefined
    }
