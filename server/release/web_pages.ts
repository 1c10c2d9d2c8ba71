/** Puts the finished files of the web pages into a build, in the place of the file that makes them. */
import { bundle } from '../web/bundle.ts'
import { packagesIn } from './components.ts'

/** `packages`: the folders of the packages that are in the pages. */
type FinishedPages = { readonly plugin: Bun.BunPlugin; readonly packages: readonly string[] }

/** The pages are bundled first: the bundler does not start a second bundle while it makes one. */
export async function finishedPages(): Promise<FinishedPages> {
  const { files, metafile } = await bundle()
  const contents = `const files = ${JSON.stringify(files)}\nexport const webFiles = () => Promise.resolve(files)`
  const plugin: Bun.BunPlugin = {
    name: 'finished web pages',
    setup(builder) {
      builder.onLoad({ filter: /server\/web\/files\.ts$/ }, () => ({ contents, loader: 'js' }))
    },
  }
  return { plugin, packages: packagesIn(metafile) }
}
