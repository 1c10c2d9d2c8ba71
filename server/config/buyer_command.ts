/** How a command line starts the program `farebox`, as pages, guides and messages print it. */

/**
 * From the folder of a checkout. Nothing here names a package `farebox` of a registry: it is not published, and whoever
 * registered that name would be given wallets.
 */
export const CHECKOUT_COMMAND = 'npx -y bun@1.4.4 run farebox'
/** The executable of a release. */
export const EXECUTABLE = 'farebox'

/** Whether this process runs from the sources. A package and an executable have them bundled. */
const IS_CHECKOUT = import.meta.url.endsWith('.ts')

/** For buyers of this gateway. The buyer of a devnet sits where it was started. */
export const defaultBuyerCommand = (isDevnet: boolean): string =>
  isDevnet && IS_CHECKOUT ? CHECKOUT_COMMAND : EXECUTABLE
