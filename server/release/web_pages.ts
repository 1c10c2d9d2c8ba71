/** Puts the finished files of the web pages into a build, in the place of the file that makes them. */
import { bundle } from '../web/bundle.ts'

/** The pages are bundled first: the bundler does not start a second bundle while it makes one. */
export async function finishedPages(): Promise<Bun.BunPlugin> {
  const files = await bundle()
  const contents = `const files = ${JSON.stringify(files)}\nexport const webFiles = () => Promise.resolve(files)`
  return {
    name: 'finished web pages',
    setup(builder) {
      builder.onLoad({ filter: /server\/web\/files\.ts$/ }, () => ({ contents, loader: 'js' }))
    },
  }
}
