/** Versions of Farebox that work on one database, one after the other or side by side. */

/**
 * The last release, with its own storages; this version; and one that takes a step more, which neither of the others
 * can read. The engine of all of them is this version's.
 */
export const VERSIONS = ['last', 'this', 'next'] as const
export type Version = (typeof VERSIONS)[number]

export type FleetLocation = { readonly kind: 'sqlite' } | { readonly kind: 'postgres'; readonly url: string }

/** `by`: the process. `crashAt`: before which statement of its migrations it is killed. */
export type Start = { readonly by: number; readonly version: Version; readonly crashAt: number | undefined }

export type Started = { readonly kind: 'started' | 'refused' | 'crashed' }

/** Asked for what the laws read, as whoever started last would. */
export const READER = -1
