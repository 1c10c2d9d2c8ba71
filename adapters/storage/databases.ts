/**
 * What each kind of database suits, known before one is opened. isShared: several processes may use one database at the
 * same time; a database that is not shared belongs to one process, so its calls end with that process.
 */
export const databases = {
  memory: { isShared: false },
  sqlite: { isShared: false },
  postgres: { isShared: true },
} as const satisfies Record<string, { readonly isShared: boolean }>
