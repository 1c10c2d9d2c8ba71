/** The operator's log. */

export interface Log {
  info(message: string, fields?: Record<string, unknown>): void
  warn(message: string, fields?: Record<string, unknown>): void
  /** Something that a person must look at. */
  alert(message: string, fields?: Record<string, unknown>): void
}
